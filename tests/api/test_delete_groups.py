"""DeleteGroups: results are in the order of the names; groups that do not exist cost little,
however many they are."""

import asyncio
from pathlib import Path
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.api.in_process import ask
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
        await asyncio.sleep(0.05)
        assert scene.service.is_absent("other")
        assert not scene.service.is_absent("new")
        assert not scene.service.is_absent(GROUP)
        scene.log.hold = False
        scene.log.release()
        await sent
        assert not scene.service.is_absent("new")

    play(tmp_path, test)
