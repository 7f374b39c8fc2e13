"""DeleteGroups: results are in the order of the names; groups that do not exist cost little,
however many they are."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api import delete_groups
from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from tests.api.in_process import ask
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.groups.commit_scene import GROUP, Scene, commit, ids_of, play

COUNT = 2000
MAX_TASKS = 50


async def deleted(scene: Scene, names: list[str]) -> list[tuple[str, int]]:
    answer: Any = await ask(scene.broker, ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(names))
    return [(result.group_id, result.error_code) for result in answer.results]


def test_groups_that_do_not_exist_take_no_tasks(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(COUNT)]

    async def test(scene: Scene) -> None:
        tasks = 0

        def counted(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> asyncio.Task[Any]:
            nonlocal tasks
            tasks += 1
            return asyncio.Task(work, loop=loop, **how)

        asyncio.get_running_loop().set_task_factory(counted)
        found = await deleted(scene, [*names[:7], GROUP, *names, GROUP])
        first, rest = names[:7], names[7:]
        missing = ErrorCode.GROUP_ID_NOT_FOUND
        expected = [*((name, missing) for name in first), (GROUP, ErrorCode.NON_EMPTY_GROUP)]
        assert found == expected + [(name, missing) for name in rest]
        assert tasks < MAX_TASKS

    play(tmp_path, test)


def test_a_group_whose_first_commit_is_being_written_is_not_absent(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        scene.log.hold = True
        frame = commit(8, {"a": [(0, 5, None)]}, ids_of(scene), group="new", member="", generation=-1)
        sent = asyncio.create_task(scene.send(frame))
        async with asyncio.timeout(60):
            while scene.service.is_absent("new"):
                await asyncio.sleep(0.001)
        assert scene.service.is_absent("other")
        assert not scene.service.is_absent("new")
        assert not scene.service.is_absent(GROUP)
        scene.log.hold = False
        scene.log.release()
        await sent
        assert not scene.service.is_absent("new")

    play(tmp_path, test)


@pytest.mark.parametrize("fails", [True, False])
def test_states_of_a_share_group_are_deleted_before_it(fails: bool) -> None:
    """Else a failure between left states behind, and a new group of that name began with them."""
    events: list[str] = []

    async def delete_states(name: str) -> None:
        events.append(f"states of {name}")
        if fails:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    async def run(name: str, operation: Operation) -> Any:
        response = operation(0).response
        if response is not None:
            events.append(f"group {name}")
        return response

    existing = {"s": ShareGroup("s"), "c": ConsumerGroup("c")}
    table = SimpleNamespace(
        groups=existing,
        of_type=lambda name, _: existing[name],
        closed_to_members=lambda _: nullcontext(),
    )
    shard = SimpleNamespace(table=table, delete=lambda name: Outcome(response=DeletableGroupResult(name)))
    groups = SimpleNamespace(is_absent=lambda _: False, read=lambda _: shard, run=run, shard=shard)
    shares = SimpleNamespace(partitions=SimpleNamespace(delete_group=delete_states))
    context: Any = SimpleNamespace(services=SimpleNamespace(groups=groups, shares=shares))

    async def answered() -> Any:
        return await answer_of(delete_groups.handle(context, DeleteGroupsRequest(["s", "c"])))

    codes = {each.group_id: each.error_code for each in asyncio.run(answered()).results}
    of_share = [each for each in events if each != "group c"]
    assert codes == {"s": ErrorCode.NOT_ENOUGH_REPLICAS if fails else ErrorCode.NONE, "c": ErrorCode.NONE}
    assert of_share == (["states of s"] if fails else ["states of s", "group s", "states of s"])
