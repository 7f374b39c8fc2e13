"""Valid requests about share groups and streams groups, each field of which is made odd."""

import time
from collections.abc import Mapping
from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kbroker.protocol.messages.share_fetch import AcknowledgementBatch as FetchedBatch
from kbroker.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kbroker.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from kbroker.protocol.schema import Struct
from tests.compat.odd_world import OTHER, TOPIC, Scene, World

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
GROUP_RESOURCE = 32
LOADED_S = 20.0
Look = tuple[K, int, Struct]


def described(world: World, name: str) -> Look:
    return K.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest([name])


def joining(world: World, name: str, version: int) -> Struct:
    return ShareGroupHeartbeatRequest(name, MEMBER, 0, "rack", [TOPIC])


def joined(world: World, name: str) -> int:
    """The epoch of the one member of a group, which starts at the earliest records."""
    change = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(GROUP_RESOURCE, name, [change])
    world.done(K.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))
    answer: Any = world.done(K.SHARE_GROUP_HEARTBEAT, 1, joining(world, name, 1))
    ends = time.monotonic() + LOADED_S
    while (answer.assignment is None or not answer.assignment.topic_partitions) and time.monotonic() < ends:
        time.sleep(0.01)
        beat = ShareGroupHeartbeatRequest(name, MEMBER, answer.member_epoch, "rack", [TOPIC])
        answer = world.done(K.SHARE_GROUP_HEARTBEAT, 1, beat)
    return int(answer.member_epoch)


def heartbeat(world: World, name: str, version: int) -> Struct:
    return ShareGroupHeartbeatRequest(name, MEMBER, joined(world, name), "rack", [TOPIC])


def fetching(world: World, name: str, epoch: int) -> ShareFetchRequest:
    topics = [FetchTopic(world.ids[TOPIC], [FetchPartition(0)])]
    return ShareFetchRequest(name, MEMBER, epoch, 0, 0, 1 << 20, 500, 500, topics=topics)


def opened(world: World, name: str) -> int:
    """The next epoch of a session that has acquired the topic's three records."""
    joined(world, name)
    ends, epoch = time.monotonic() + LOADED_S, 0
    while time.monotonic() < ends:
        answer = world.done(K.SHARE_FETCH, 1, fetching(world, name, epoch))
        epoch += 1
        if any(part.acquired_records for each in answer.responses for part in each.partitions):
            break
        time.sleep(0.01)
    return epoch


def acknowledge(world: World, name: str, version: int) -> Struct:
    epoch = opened(world, name)
    part = AcknowledgePartition(0, [AcknowledgementBatch(0, 1, [1])])
    topics = [AcknowledgeTopic(world.ids[TOPIC], [part])]
    return ShareAcknowledgeRequest(name, MEMBER, epoch, topics=topics)


def fetch(world: World, name: str, version: int) -> Struct:
    request = fetching(world, name, opened(world, name))
    request.topics[0].partitions[0].acknowledgement_batches = [FetchedBatch(0, 2, [1])]
    request.forgotten_topics_data = [ForgottenTopic(world.ids[TOPIC], [0])]
    return request


def offsets_of(world: World, name: str) -> Look:
    topics = [DescribeShareGroupOffsetsRequestTopic(TOPIC, [0, 1])]
    groups = [DescribeShareGroupOffsetsRequestGroup(name, topics)]
    return K.DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsRequest(groups)


def left(world: World, name: str) -> None:
    """A group with offsets, whose member has left."""
    epoch = joined(world, name)
    assert epoch
    world.done(K.SHARE_GROUP_HEARTBEAT, 1, ShareGroupHeartbeatRequest(name, MEMBER, -1))


def describe_offsets(world: World, name: str, version: int) -> Struct:
    left(world, name)
    return offsets_of(world, name)[2]


def alter_offsets(world: World, name: str, version: int) -> Struct:
    left(world, name)
    part = AlterShareGroupOffsetsRequestPartition(0, 2)
    return AlterShareGroupOffsetsRequest(name, [AlterShareGroupOffsetsRequestTopic(TOPIC, [part])])


def delete_offsets(world: World, name: str, version: int) -> Struct:
    left(world, name)
    return DeleteShareGroupOffsetsRequest(name, [DeleteShareGroupOffsetsRequestTopic(TOPIC)])


def topology() -> Topology:
    """Two subtopologies without internal topics that a broker would make."""
    first = Subtopology("0", [TOPIC, OTHER], copartition_groups=[CopartitionGroup([0, 1])])
    return Topology(0, [first, Subtopology("1", [OTHER])])


def with_internal_topics() -> Topology:
    """Two subtopologies with a repartition topic between them, and a changelog."""
    through, counts = TopicInfo("through", 0, 0, [KeyValue("retention.ms", "-1")]), TopicInfo("counts", 0, 1)
    first = Subtopology("0", [TOPIC], repartition_sink_topics=["through"])
    copartition = [CopartitionGroup(repartition_source_topics=[0])]
    return Topology(3, [first, Subtopology("1", [], [], [counts], [], [through], copartition)])


def streams_joining(world: World, name: str, version: int) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        name, MEMBER, 0, 0, None, "rack", 30_000, topology(), [], [], [], "process",
        RequestEndpoint("host", 1234), [KeyValue("zone", "a")],
    )  # fmt: skip


def streams_joining_internal(world: World, name: str, version: int) -> Struct:
    request = streams_joining(world, name, version)
    request.topology = with_internal_topics()
    return request


def streams_heartbeat(world: World, name: str, version: int) -> Struct:
    answer = world.done(K.STREAMS_GROUP_HEARTBEAT, 0, streams_joining(world, name, 0))
    tasks = [RequestTaskIds(each.subtopology_id, each.partitions) for each in answer.active_tasks or ()]
    return StreamsGroupHeartbeatRequest(
        name, MEMBER, answer.member_epoch, 0, None, "rack", 30_000, None, tasks or [RequestTaskIds("0", [0])],
        [], [], "process", RequestEndpoint("host", 1234), [KeyValue("zone", "a")],
        [TaskOffset("0", 0, 5)], [TaskOffset("0", 0, 7)],
    )  # fmt: skip


def described_streams(world: World, name: str) -> Look:
    return K.STREAMS_GROUP_DESCRIBE, 0, StreamsGroupDescribeRequest([name])


def describe(world: World, name: str, version: int) -> Struct:
    joined(world, name)
    return ShareGroupDescribeRequest([name], True)


def describe_streams(world: World, name: str, version: int) -> Struct:
    world.done(K.STREAMS_GROUP_HEARTBEAT, 0, streams_joining(world, name, 0))
    return StreamsGroupDescribeRequest([name], True)


SESSION = frozenset({"share_session_epoch", "first_offset"})
"""Not made odd: the epoch differs, because Apache Kafka takes a while to load a partition; of the
lowest offset of all it counts wrong."""
SHARE_SCENES: Mapping[str, Scene] = {
    "share-joins": Scene(K.SHARE_GROUP_HEARTBEAT, (1, 1), joining, look=described),
    "share-goes-on": Scene(K.SHARE_GROUP_HEARTBEAT, (1, 1), heartbeat, look=described),
    "share-fetch": Scene(
        K.SHARE_FETCH,
        (1, 2),
        fetch,
        SESSION | {"max_wait_ms", "min_bytes"},
    ),
    "share-acknowledge": Scene(K.SHARE_ACKNOWLEDGE, (1, 2), acknowledge, SESSION),
    "share-describe": Scene(K.SHARE_GROUP_DESCRIBE, (1, 1), describe),
    "describe-share-offsets": Scene(
        K.DESCRIBE_SHARE_GROUP_OFFSETS, (0, 1), describe_offsets, frozenset({"partitions"}), once=True
    ),
    "alter-share-offsets": Scene(
        K.ALTER_SHARE_GROUP_OFFSETS,
        (0, 0),
        alter_offsets,
        once=True,
        look=offsets_of,
    ),
    "delete-share-offsets": Scene(
        K.DELETE_SHARE_GROUP_OFFSETS, (0, 0), delete_offsets, once=True, look=offsets_of
    ),
    "streams-joins": Scene(
        K.STREAMS_GROUP_HEARTBEAT, (0, 0), streams_joining, once=True, look=described_streams
    ),
    "streams-internal-topics": Scene(
        K.STREAMS_GROUP_HEARTBEAT, (0, 0), streams_joining_internal, once=True, look=described_streams
    ),
    "streams-goes-on": Scene(K.STREAMS_GROUP_HEARTBEAT, (0, 0), streams_heartbeat, look=described_streams),
    "describe-streams": Scene(K.STREAMS_GROUP_DESCRIBE, (0, 0), describe_streams),
}
