"""Long requests to coordinators block the loop of control for a few milliseconds at most."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE
from kbroker.control.share.service import ShareService
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages import streams_group_heartbeat as streams
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kbroker.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kbroker.protocol.schema import Struct
from tests.api.in_process import client_request
from tests.callbacks import LongestCallback, Tries
from tests.control.coordinators_scene import Scene, play
from tests.control.fakes import world
from tests.control.groups.commit_scene import Log

pytestmark = pytest.mark.slow

MAX_MS = 15.0
"""Fifteen slices; without slices these take twenty milliseconds to some hundred."""


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def commits(known: bool) -> OffsetCommitRequest:
    """Offsets of a topic that is named again and again, more than one batch holds; or of some that
    do not exist as well."""
    part = OffsetCommitRequestPartition(0, 1)
    named = ("t",) * 200_000 if known else ("t", "unknown") * 100_000
    return OffsetCommitRequest(
        "g", topics=[OffsetCommitRequestTopic(name, partitions=[part]) for name in named]
    )


REQUESTS: dict[str, tuple[ApiKey, int, Callable[[], Struct]]] = {
    "states of groups": (ApiKey.LIST_GROUPS, 5, lambda: ListGroupsRequest(names(600_000))),
    "types of groups": (ApiKey.LIST_GROUPS, 5, lambda: ListGroupsRequest([], names(600_000))),
    "offsets that are too many for the log": (ApiKey.OFFSET_COMMIT, 2, lambda: commits(known=True)),
    "offsets of some unknown topics": (ApiKey.OFFSET_COMMIT, 2, lambda: commits(known=False)),
    "offsets of an unknown transaction": (
        ApiKey.TXN_OFFSET_COMMIT,
        0,
        lambda: TxnOffsetCommitRequest(
            "x",
            "g",
            1,
            0,
            topics=[TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(0, 1)])] * 150_000,
        ),
    ),
    "offsets to delete": (
        ApiKey.OFFSET_DELETE,
        0,
        lambda: OffsetDeleteRequest(
            "classic", [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])] * 150_000
        ),
    ),
    "ids whose offsets are fetched": (
        ApiKey.OFFSET_FETCH,
        10,
        lambda: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    "g", topics=[OffsetFetchRequestTopics("", n.to_bytes(16), [0]) for n in range(1, 300_000)]
                )
            ]
        ),
    ),
    "copartition groups of a topology": (
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        lambda: streams.StreamsGroupHeartbeatRequest(
            "g",
            topology=streams.Topology(
                subtopologies=[
                    streams.Subtopology(
                        "s", copartition_groups=[streams.CopartitionGroup([0]) for _ in range(300_000)]
                    )
                ]
            ),
        ),
    ),
    "unknown topics of a share group": (
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        lambda: AlterShareGroupOffsetsRequest(
            "g",
            [
                AlterShareGroupOffsetsRequestTopic(name, [AlterShareGroupOffsetsRequestPartition(0, 0)])
                for name in names(100_000)
            ],
        ),
    ),
}


async def share(scene: Scene) -> Runtime:
    """A coordinator of share groups over a log in memory."""
    log = Log()
    runtime = Runtime(scene.broker, log, SHARE_GROUP_STATE, asyncio.get_running_loop())
    service = ShareService(scene.broker, scene.group_service, runtime, lambda _: None, log.append)
    scene.services.coordinate(scene.group_service, scene.transaction_service, service)
    await runtime.ready()
    return runtime


def check_callbacks(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: ApiKey,
    version: int,
    request: Struct,
    authorizer: Authorizer | None = None,
) -> None:
    """Fails if a callback of the loop takes long in each try."""
    longest, tries = LongestCallback(monkeypatch), Tries(MAX_MS)
    client = client_request(api, version, encode(request, version))

    async def body(scene: Scene) -> None:
        shares = await share(scene)
        scene.table.create_classic("classic", 0)
        scene.broker.authorizer = authorizer
        while tries.needed():
            await asyncio.sleep(0)
            longest.reset()
            await scene.answered(lambda link: scene.requests.serve(link, 1, client))
            tries.add(longest.ms)
        shares.close()

    with world(folder) as made:
        play(made, body)
    tries.check()


@pytest.mark.parametrize("name", REQUESTS)
def test_no_callback_of_a_coordinator_takes_long(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, version, made = REQUESTS[name]
    check_callbacks(tmp_path, monkeypatch, api, version, made())


def test_coordinators_of_some_groups_are_found_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = Acl(acls.GROUP, "n1", acls.PREFIXED, "User:ANONYMOUS", "*", acls.ALL, acls.ALLOW)
    request = FindCoordinatorRequest("", 0, names(1_000_000))
    check_callbacks(tmp_path, monkeypatch, ApiKey.FIND_COORDINATOR, 6, request, Authorizer(entries=[some]))
