"""Small requests that clients send between batches. Every answer is compared with the first one."""

import time

from confluent_kafka import Producer

from bench.generator import LoadFailed
from bench.raw_requests import NUMBER, SETTLE_S, answer_of, ask, framed, repeat, repeated
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

PARTITIONS = 1  # Apache Kafka names several in any order
LATEST = -1
LARGEST_TIMESTAMP = -3
LIST_OFFSETS_VERSION = 8
FILLED_BYTES = 4 << 20
BATCH_RECORDS = 16
PRODUCERS = 5


def metadata(turn: Turn) -> Measures:
    topic = turn.topic("asked", PARTITIONS)
    return repeat(
        turn, framed(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=topic)], False))
    )


def coordinators(turn: Turn) -> Measures:
    request = FindCoordinatorRequest(coordinator_keys=[f"bench-{turn.number}"])
    return repeat(turn, framed(ApiKey.FIND_COORDINATOR, 4, request))


def new_coordinators(turn: Turn) -> Measures:
    """A group that no request has named before."""
    request = FindCoordinatorRequest(coordinator_keys=[f"bench-{turn.number}-{NUMBER}"])
    return repeat(turn, framed(ApiKey.FIND_COORDINATOR, 4, request))


def latest(turn: Turn) -> Measures:
    return repeat(turn, _list_offsets(turn.topic("asked", PARTITIONS), LATEST))


def by_time(turn: Turn) -> Measures:
    """The first record of the log's second half, by its timestamp."""
    topic = _filled(turn)
    request = _offsets_request(topic, LARGEST_TIMESTAMP)
    answer = answer_of(turn.target.port, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
    largest = answer.topics[0].partitions[0].timestamp
    time.sleep(SETTLE_S)
    turn.fill(topic, FILLED_BYTES, BATCH_RECORDS)
    return repeat(turn, _list_offsets(topic, largest + 1))


def largest_timestamp(turn: Turn) -> Measures:
    return repeat(turn, _list_offsets(_filled(turn), LARGEST_TIMESTAMP))


def _filled(turn: Turn) -> str:
    topic = turn.topic("asked", PARTITIONS)
    turn.fill(topic, FILLED_BYTES, BATCH_RECORDS)
    return topic


def _list_offsets(topic: str, timestamp: int) -> bytes:
    return framed(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, _offsets_request(topic, timestamp))


def _offsets_request(topic: str, timestamp: int) -> ListOffsetsRequest:
    parts = [ListOffsetsPartition(index, -1, timestamp) for index in range(PARTITIONS)]
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, parts)])


def producers(turn: Turn) -> Measures:
    """Idempotent producers of a partition, each with a record in it."""
    topic = turn.topic("asked", PARTITIONS)
    for _ in range(PRODUCERS):
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{turn.target.port}",
                "enable.idempotence": True,
                "log_level": 3,
            }
        )
        producer.produce(topic, b"one", partition=0)
        if producer.flush(30):
            raise LoadFailed(f"a record of {topic} was not acknowledged")
    request = DescribeProducersRequest([TopicRequest(topic, list(range(PARTITIONS)))])
    return repeat(turn, framed(ApiKey.DESCRIBE_PRODUCERS, 0, request))


def committed(turn: Turn) -> Measures:
    topic, group = turn.topic("asked", PARTITIONS), f"bench-{turn.number}"
    ask(
        turn.target.port,
        framed(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group])),
    )
    parts = [OffsetCommitRequestPartition(index, 1000) for index in range(PARTITIONS)]
    commit = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=parts)])
    ask(turn.target.port, framed(ApiKey.OFFSET_COMMIT, 8, commit))
    partitions = OffsetFetchRequestTopics(topic, partition_indexes=list(range(PARTITIONS)))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[partitions])])
    return repeat(turn, framed(ApiKey.OFFSET_FETCH, 8, request))


SCENARIOS = (
    repeated("ask_metadata", "Metadata of a topic", metadata),
    repeated("ask_coordinator", "FindCoordinator of a group", coordinators),
    repeated("ask_new_coordinator", "FindCoordinator of a new group each time", new_coordinators),
    repeated("ask_latest", "ListOffsets, the latest of a partition", latest),
    repeated("ask_committed", "OffsetFetch of a partition", committed),
    repeated("ask_time", "ListOffsets, the first offset from a time on", by_time),
    repeated("ask_largest_time", "ListOffsets, the record with the largest timestamp", largest_timestamp),
    repeated("ask_producers", f"DescribeProducers of a partition with {PRODUCERS} producers", producers),
)
