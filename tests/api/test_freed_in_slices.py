"""What a long request has built is freed in slices, too: freeing tens of thousands of objects in
one piece takes tens of milliseconds.
"""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.slicing import Slicing
from kbroker.protocol import slices
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.messages import alter_configs, incremental_alter_configs
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.schema import Struct
from tests.api.freed_blocks import ENTRIES, MAX_BLOCKS, changes_by_slice
from tests.api.in_process import client_request, dispatch_of
from tests.control.coordinators_scene import ANSWER_S
from tests.control.fakes import world

pytestmark = pytest.mark.slow

NAMES = [f"n{number}" for number in range(ENTRIES)]


def _incremental(kind: int, name: str) -> tuple[ApiKey, int, Struct]:
    one = incremental_alter_configs
    settings = [one.AlterableConfig(each, 0, "1") for each in NAMES]
    request = one.IncrementalAlterConfigsRequest([one.AlterConfigsResource(kind, name, settings)])
    return ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request


def _replaced() -> tuple[ApiKey, int, Struct]:
    one = alter_configs
    settings = [one.AlterableConfig(each, "1") for each in NAMES]
    return ApiKey.ALTER_CONFIGS, 2, one.AlterConfigsRequest([one.AlterConfigsResource(2, "n0", settings)])


REQUESTS: dict[str, tuple[ApiKey, int, Struct]] = {
    "settings of a topic": _incremental(2, "n0"),
    "settings of a group": _incremental(32, "n0"),
    "settings of client metrics": _incremental(16, "n0"),
    "settings to replace": _replaced(),
    "settings to describe": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        DescribeConfigsRequest([DescribeConfigsResource(2, "n0", NAMES)]),
    ),
    "offsets": (
        ApiKey.LIST_OFFSETS,
        7,
        ListOffsetsRequest(topics=[ListOffsetsTopic(name, [ListOffsetsPartition(0)]) for name in NAMES]),
    ),
    "records": (
        ApiKey.DELETE_RECORDS,
        2,
        DeleteRecordsRequest([DeleteRecordsTopic(name, [DeleteRecordsPartition(0)]) for name in NAMES]),
    ),
    "log dirs": (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir("/d", [AlterReplicaLogDirTopic(name, [0]) for name in NAMES])]
        ),
    ),
    "reassignments": (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name, [0]) for name in NAMES]
        ),
    ),
    "offsets of a group": (
        ApiKey.OFFSET_DELETE,
        0,
        OffsetDeleteRequest(
            "g", [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in NAMES]
        ),
    ),
    "quotas": (
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        AlterClientQuotasRequest(
            [RequestEntryData([RequestEntityData("user", name)], [OpData("unknown", 1.0)]) for name in NAMES]
        ),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_long_request_is_freed_in_slices(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, version, request = REQUESTS[name]
    body = encode(request, version)
    changes = changes_by_slice(monkeypatch)
    with world(tmp_path) as made:

        async def served() -> None:
            await create_topics(made.broker, [NewTopic("n0")])
            client = client_request(api, version, body)
            async with asyncio.timeout(ANSWER_S):
                answer = await Slicing().run(partial(dispatch_of(made.broker), client))
                while isinstance(answer, Deferred) and not answer.done:
                    await asyncio.sleep(0)

        asyncio.run(served())
    assert len(changes) > ENTRIES / slices.SHORT
    assert -min(changes) < MAX_BLOCKS, "freed in one slice"
