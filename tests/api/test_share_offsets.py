"""Nothing joins a share group while its states are changed or deleted: a member would use states
that are not there at the end."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.schema import Struct
from tests.api.in_process import ask
from tests.control.fakes import services_of
from tests.control.groups.commit_scene import Scene, play

PARTITION = AlterShareGroupOffsetsRequestPartition(0, 5)
CHANGES: dict[ApiKey, tuple[int, Struct]] = {
    ApiKey.DELETE_GROUPS: (2, DeleteGroupsRequest(["s"])),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        0,
        AlterShareGroupOffsetsRequest("s", [AlterShareGroupOffsetsRequestTopic("a", [PARTITION])]),
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        0,
        DeleteShareGroupOffsetsRequest("s", [DeleteShareGroupOffsetsRequestTopic("a")]),
    ),
}
KINDS = pytest.mark.parametrize("api", list(CHANGES), ids=lambda api: api.name)


async def member(scene: Scene, name: str, epoch: int = 0) -> int:
    """The error code of a heartbeat; the epoch of the first one is 0, of the last one -1."""
    request = ShareGroupHeartbeatRequest(
        "s", name, epoch, subscribed_topic_names=["a"] if epoch == 0 else None
    )
    answer: Any = await ask(scene.broker, ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
    return int(answer.error_code)


class States:
    """Stands for the states of the group: a member attempts to join whenever one changes."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.codes: list[int] = []

    async def change(self, *_: object) -> None:
        self.codes.append(await member(self.scene, "late"))

    delete = delete_group = restart_at = change


async def prepared(scene: Scene) -> States:
    """An empty share group that shares topic a."""
    states = States(scene)
    shares: Any = SimpleNamespace(partitions=states)
    services_of(scene.broker).coordinate(scene.service, shares=shares)
    assert await member(scene, "early") == ErrorCode.NONE
    await scene.service.run("s", lambda _: scene.shard.share_partitions("s", {"a": {0}}))
    assert await member(scene, "early", -1) == ErrorCode.NONE
    return states


async def code_of(scene: Scene, api: ApiKey) -> int:
    """The error of the whole change, else of its first item."""
    version, request = CHANGES[api]
    answer: Any = await ask(scene.broker, api, version, request)
    if api == ApiKey.DELETE_GROUPS:
        return int(answer.results[0].error_code)
    if answer.error_code or api == ApiKey.DELETE_SHARE_GROUP_OFFSETS:
        return int(answer.error_code or answer.responses[0].error_code)
    return int(answer.responses[0].partitions[0].error_code)


@KINDS
def test_a_member_that_joins_while_states_are_changed_is_to_repeat_it(tmp_path: Path, api: ApiKey) -> None:
    async def test(scene: Scene) -> None:
        states = await prepared(scene)
        assert await code_of(scene, api) == ErrorCode.NONE
        assert set(states.codes) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert ("s" in scene.shard.table.groups) == (api != ApiKey.DELETE_GROUPS)
        assert await member(scene, "late") == ErrorCode.NONE

    play(tmp_path, test)


@KINDS
def test_a_member_whose_join_is_being_written_counts(tmp_path: Path, api: ApiKey) -> None:
    async def test(scene: Scene) -> None:
        states = await prepared(scene)
        scene.log.hold = True
        joined = asyncio.create_task(member(scene, "late"))
        await asyncio.sleep(0.05)
        changed = asyncio.create_task(code_of(scene, api))
        await asyncio.sleep(0.05)
        scene.log.hold = False
        scene.log.release()
        assert (await joined, await changed) == (ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP)
        assert states.codes == []
        assert await member(scene, "later") == ErrorCode.NONE

    play(tmp_path, test)
