"""Small requests that clients send between batches. Every answer is compared with the first one."""

import socket
import struct
import time
from collections.abc import Callable

from confluent_kafka import Producer

from bench import limits
from bench.generator import LoadFailed
from bench.members import CORRELATION_ID
from bench.scenario import Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
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
from kbroker.protocol.schema import Struct

CONNECTIONS = 50
PARTITIONS = 1  # Apache Kafka names several in any order
LATEST = -1
LARGEST_TIMESTAMP = -3
LIST_OFFSETS_VERSION = 8
FILLED_BYTES = 4 << 20
BATCH_RECORDS = 16
PRODUCERS = 5
SETTLE_S = 0.2


def _framed(api: ApiKey, version: int, request: Struct) -> bytes:
    return encode_request(api, version, CORRELATION_ID, "bench", request)


def _ask(port: int, frame: bytes) -> bytes:
    """The whole answer to one request."""
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile("rb") as stream:
        link.sendall(frame)
        size = stream.read(4)
        return size + stream.read(*struct.unpack(">i", size))


def _repeat(turn: Turn, frame: bytes) -> Measures:
    port, folder = turn.target.port, turn.target.folder
    answer, last = _ask(port, frame), b""
    while answer != last:  # the first may make something
        time.sleep(SETTLE_S)
        answer, last = _ask(port, frame), answer
    sent, expected = folder / "requests.bin", folder / "answer.bin"
    sent.write_bytes(frame * CONNECTIONS)
    expected.write_bytes(answer)
    load = turn.load("repeat", requests=sent, answer=expected, connections=CONNECTIONS, **turn.timed())
    return {**load.rate("requests"), **load.latency("answer")}


def metadata(turn: Turn) -> Measures:
    topic = turn.topic("asked", PARTITIONS)
    return _repeat(
        turn, _framed(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=topic)], False))
    )


def coordinators(turn: Turn) -> Measures:
    request = FindCoordinatorRequest(coordinator_keys=[f"bench-{turn.number}"])
    return _repeat(turn, _framed(ApiKey.FIND_COORDINATOR, 4, request))


def latest(turn: Turn) -> Measures:
    return _repeat(turn, _list_offsets(turn.topic("asked", PARTITIONS), LATEST))


def by_time(turn: Turn) -> Measures:
    """The first record of the log's second half, by its timestamp."""
    topic = _filled(turn)
    frame = _list_offsets(topic, LARGEST_TIMESTAMP)
    body = _ask(turn.target.port, frame)[4:]
    _, at = parse_response(body, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION)
    answer = decode_exact(ListOffsetsResponse, LIST_OFFSETS_VERSION, body, at)
    largest = answer.topics[0].partitions[0].timestamp
    time.sleep(SETTLE_S)
    turn.fill(topic, FILLED_BYTES, BATCH_RECORDS)
    return _repeat(turn, _list_offsets(topic, largest + 1))


def largest_timestamp(turn: Turn) -> Measures:
    return _repeat(turn, _list_offsets(_filled(turn), LARGEST_TIMESTAMP))


def _filled(turn: Turn) -> str:
    topic = turn.topic("asked", PARTITIONS)
    turn.fill(topic, FILLED_BYTES, BATCH_RECORDS)
    return topic


def _list_offsets(topic: str, timestamp: int) -> bytes:
    parts = [ListOffsetsPartition(index, -1, timestamp) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, parts)])
    return _framed(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)


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
    return _repeat(turn, _framed(ApiKey.DESCRIBE_PRODUCERS, 0, request))


def committed(turn: Turn) -> Measures:
    topic, group = turn.topic("asked", PARTITIONS), f"bench-{turn.number}"
    _ask(
        turn.target.port,
        _framed(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[group])),
    )
    parts = [OffsetCommitRequestPartition(index, 1000) for index in range(PARTITIONS)]
    commit = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, partitions=parts)])
    _ask(turn.target.port, _framed(ApiKey.OFFSET_COMMIT, 8, commit))
    partitions = OffsetFetchRequestTopics(topic, partition_indexes=list(range(PARTITIONS)))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[partitions])])
    return _repeat(turn, _framed(ApiKey.OFFSET_FETCH, 8, request))


def _scenario(name: str, title: str, run: Callable[[Turn], Measures]) -> Scenario:
    measures = (
        rate(1.0, "requests/s"),
        cpu_per_message(what="request"),
        latency("p99", what="answer"),
        client_cpu(),
    )
    title = f"{title}, {CONNECTIONS} connections"
    return Scenario(name, title, measures, run, kind="questions", limit=limits.echo())


SCENARIOS = (
    _scenario("ask_metadata", "Metadata of a topic", metadata),
    _scenario("ask_coordinator", "FindCoordinator of a group", coordinators),
    _scenario("ask_latest", "ListOffsets, the latest of a partition", latest),
    _scenario("ask_committed", "OffsetFetch of a partition", committed),
    _scenario("ask_time", "ListOffsets, the first offset from a time on", by_time),
    _scenario("ask_largest_time", "ListOffsets, the record with the largest timestamp", largest_timestamp),
    _scenario("ask_producers", f"DescribeProducers of a partition with {PRODUCERS} producers", producers),
)
