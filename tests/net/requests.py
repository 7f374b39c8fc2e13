"""Requests and answers of the network process's tests, made with the codec."""

import socket
import time

from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kbroker.protocol.records import build_batch, read_all
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask, read_frame

PRODUCE, FETCH = 0, 1
BATCHES = 10  # of ``filled``
TOPIC_ID = (1).to_bytes(16, "big")  # of the first topic of a node


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(value: bytes = b"value", count: int = 1, **how: object) -> bytes:
    """A batch of ``count`` equal records with keys."""
    records = [(b"key", value, (), now_ms())] * count
    return build_batch(records, **how)


def produce_frame(
    data: bytes | None,
    version: int = 7,
    partition: int = 0,
    acks: int = -1,
    topic: str = "t",
    number: int = 1,
) -> bytes:
    topic_id = TOPIC_ID if topic == "t" else bytes(15) + b"\xff"
    parts = [PartitionProduceData(partition, data)]
    request = ProduceRequest(None, acks, 1000, [TopicProduceData(topic, topic_id, parts)])
    return encode_request(PRODUCE, version, number, "test", request)


def read_produce(frame: bytes, version: int) -> ProduceResponse:
    _, start = parse_response(frame, PRODUCE, version)
    return decode_exact(ProduceResponse, version, frame, start)


def produce(
    link: socket.socket, data: bytes | None, version: int = 7, **how: object
) -> PartitionProduceResponse:
    """Send one batch; the answer for its partition."""
    answer = ask(link, produce_frame(data, version, **how))
    assert answer, "the connection was closed"
    return read_produce(answer, version).responses[0].partition_responses[0]


def fetch_frame(
    offset: int = 0,
    version: int = 11,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    partitions: dict[int, int] | None = None,
    named: list[tuple[int, int]] | None = None,
    forget: list[int] | None = None,
    topic: str = "t",
    epoch: int = -1,
    last_epoch: int = -1,
    isolation: int = 0,
) -> bytes:
    """named: (partition, offset) of each; a partition may be named again."""
    expected = {partition: offset} if partitions is None else partitions
    parts = [
        FetchPartition(p, epoch, at, last_epoch, partition_max_bytes=partition_max_bytes)
        for p, at in named or expected.items()
    ]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic, TOPIC_ID if topic == "t" else bytes(15) + b"\xff", parts)] if parts else [],
        forgotten_topics_data=[ForgottenTopic("t", TOPIC_ID, forget)] if forget else [],
    )
    return encode_request(FETCH, version, 1, "test", request)


def read_fetch(frame: bytes, version: int) -> FetchResponse:
    _, start = parse_response(frame, FETCH, version)
    return decode_exact(FetchResponse, version, frame, start)


def fetch(link: socket.socket, offset: int = 0, version: int = 11, **how: object) -> FetchResponse:
    """Send one fetch; the answer."""
    answer = ask(link, fetch_frame(offset, version, **how))
    assert answer, "the connection was closed"
    return read_fetch(answer, version)


def is_closed(link: socket.socket) -> bool:
    """Whether the other end closes without sending more."""
    return read_frame(link) == b""


def offsets(records: object) -> list[int]:
    return [record.offset for record in read_all(bytes(records or b""))]  # type: ignore[call-overload]


def filled(node_factory: NodeFactory, partitions: int = 1, **how: object) -> tuple[NetNode, int]:
    """A node whose partition 0 holds ten batches of two records; bytes of one batch."""
    node = node_factory({"t": partitions}, **how)
    link = node.connect()
    data = batch(b"x" * 100, 2)
    for _ in range(BATCHES):
        assert produce(link, data).error_code == 0
    return node, len(data)
