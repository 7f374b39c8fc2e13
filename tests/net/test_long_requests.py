"""Requests and answers of tens of megabytes: none of them makes a callback of a network process's
loop long."""

import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import ClientRequest
from kbroker.log import files
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch, read_batches
from kbroker.protocol.schema import Struct
from tests.net.doubles import NetNode, ask, read_frame
from tests.net.forward.forwarded import asking, framed, read
from tests.net.loop_lag import LagNode
from tests.net.requests import (
    PRODUCE,
    batch,
    fetch,
    fetch_frame,
    now_ms,
    produce,
    produce_frame,
    read_fetch,
    read_produce,
)

pytestmark = pytest.mark.slow

SIZE = 32 << 20
MAX_MS = 20.0
"""Copied in one piece, such a frame takes more than thirty."""
MAX_RECORDS_MS = 60.0
"""The records of a turn and of the request that ends it take some 12 ms, thirty on a slow
processor. In one piece, those of the tests' requests take 140 ms and more."""
ENOUGH = 500_000
"""min.bytes of a fetch: more than short records have."""
NodeFactory = Callable[..., LagNode]


@pytest.fixture
def lag_node() -> Iterator[NodeFactory]:
    made: list[NetNode] = []

    def make(*arguments: object, **named: object) -> LagNode:
        node = LagNode(*arguments, **named)
        made.append(node)
        node.start()
        return node

    yield make
    codes = [node.stop() for node in made]
    assert not any(codes)


def test_a_long_request_on_its_way_to_control(lag_node: NodeFactory) -> None:
    node = lag_node({"t": 1}, answer=lambda request: framed(request.correlation_id))
    link = node.connect()
    body = bytes(range(256)) * (SIZE // 256)
    assert ask(link, asking(1)) == framed(1)[4:]

    def ask_long() -> None:
        assert ask(link, asking(2, body=body)) == framed(2)[4:]

    node.check_longest_ms(MAX_MS, ask_long)
    assert ask(link, asking(3)) == framed(3)[4:]
    assert node.control.requests[1].body == body


@pytest.mark.parametrize("frame", [asking(2), asking(2, body=bytes(1 << 17)), asking(2, body=bytes(1 << 20))])
def test_a_long_answer_on_its_way_from_control(lag_node: NodeFactory, frame: bytes) -> None:
    """Of a request that reached control in a block, as a message, or in pieces."""

    def answer(request: ClientRequest) -> bytes:
        return framed(request.correlation_id, SIZE if request.correlation_id == 2 else 0)

    node = lag_node({"t": 1}, answer=answer)
    link = node.connect()
    assert ask(link, asking(1)) == framed(1)[4:]

    def answered() -> None:
        link.sendall(frame + asking(3))
        assert read(link, 8 + SIZE) == framed(2, SIZE)
        assert read(link, 8) == framed(3)

    node.check_longest_ms(MAX_MS, answered)


def test_long_requests_of_several_clients_take_turns(lag_node: NodeFactory) -> None:
    node = lag_node({"t": 1}, answer=lambda request: framed(request.correlation_id, len(request.body)))
    links = [node.connect() for _ in range(4)]
    sizes = [(3 << 20) + number for number in range(len(links))]

    def send(number: int) -> None:
        links[number].sendall(asking(number, body=bytes(sizes[number])) * 3)

    def talked() -> None:
        threads = [threading.Thread(target=send, args=(number,)) for number in range(len(links))]
        for thread in threads:
            thread.start()
        for number, link in enumerate(links):
            for _ in range(3):
                assert read(link, 8 + sizes[number]) == framed(number, sizes[number])
        for thread in threads:
            thread.join()

    node.check_longest_ms(MAX_MS, talked)


def test_a_client_that_leaves_while_its_long_request_is_sent(lag_node: NodeFactory) -> None:
    """The memory for requests is freed: together they are larger than it."""
    settings = {"kbroker.arena.bytes": str(64 << 20), "socket.request.max.bytes": str(SIZE + 100)}
    node = lag_node({"t": 1}, settings, answer=lambda request: framed(request.correlation_id))
    for _ in range(4):
        link = node.connect()
        link.sendall(asking(1, body=bytes(SIZE)))
        link.close()
    last = node.connect()
    assert ask(last, asking(2, body=bytes(SIZE))) == framed(2)[4:]


def test_a_fetch_of_many_partitions_and_the_session_that_it_makes(lag_node: NodeFactory) -> None:
    node, count = lag_node({"t": 2}), 60_000
    link = node.connect()
    fetch(link, partitions=dict.fromkeys(range(3000), 0))  # kernels of long fetches are loaded once

    def fetched() -> None:
        made = fetch(link, partitions=dict.fromkeys(range(count), 0), session=(0, 0))
        assert len(made.responses[0].partitions) == count
        assert made.session_id
        for epoch in (1, 2):
            assert fetch(link, partitions={}, session=(made.session_id, epoch)).error_code == 0

    node.check_longest_ms(MAX_MS, fetched)


def test_a_fetch_of_many_partitions_that_waits(lag_node: NodeFactory) -> None:
    node, count = lag_node({"t": 2}), 300_000
    link = node.connect()
    fetch(link)

    def fetched() -> None:
        answer = fetch(link, partitions=dict.fromkeys(range(count), 0), max_wait_ms=50)
        assert sum(len(topic.partitions) for topic in answer.responses) == count

    node.check_longest_ms(2 * MAX_MS, fetched)  # one piece takes ten times as long


@pytest.mark.parametrize("leaves", [False, True])
def test_a_fetch_that_waits_for_many_partitions(lag_node: NodeFactory, leaves: bool) -> None:
    """When it is registered, whenever one of them gets a record, and when it ends."""
    ends = dict.fromkeys(range(20_000), 0)
    node = lag_node({"t": len(ends)})
    writes = node.connect()
    fetch(writes, partitions={0: 0, 1: 0}, max_wait_ms=1)

    def write(partition: int, value: bytes = b"") -> None:
        assert produce(writes, batch(value), partition=partition).error_code == 0
        ends[partition] += 1

    def waited() -> None:
        waits = node.connect()
        waits.settimeout(60)
        waits.sendall(fetch_frame(partitions=ends, max_wait_ms=60_000, min_bytes=ENOUGH))
        deadline = time.monotonic() + 60
        few = ends[0] + ENOUGH // 500  # the bytes of so many batches are too few for an answer
        while not node.shared.slots[len(ends) - 1, Slot.WAITERS]:
            assert time.monotonic() < deadline, "the fetch does not wait"
            if ends[0] < few:
                write(0)
            else:
                time.sleep(0.01)
        for partition in range(1, 50):
            write(partition)
        if leaves:
            waits.close()
        else:
            write(len(ends) - 1, bytes(ENOUGH))
            assert len(read_fetch(read_frame(waits), 11).responses[0].partitions) == len(ends)
        for partition in range(1, 50):
            write(partition)

    write(0)
    node.check_longest_ms(MAX_MS, waited)


def producing(topics: int, partitions: int) -> Struct:
    parts = [PartitionProduceData(number, None) for number in range(partitions)]
    return ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(f"no-{number}", partition_data=parts) for number in range(topics)],
    )


@pytest.mark.parametrize(("topics", "partitions"), [(1, 1_000_000), (500_000, 0)])
def test_a_produce_of_many_partitions_or_topics(lag_node: NodeFactory, topics: int, partitions: int) -> None:
    node = lag_node({"t": 1})
    link = node.connect()
    fetch(link)
    request = encode_request(PRODUCE, 9, 7, "c", producing(topics, partitions))

    def produced() -> None:
        answer = ask(link, request)
        assert struct.unpack_from(">i", answer)[0] == 7
        assert len(answer) > 5 * partitions, "as in Kafka, topics without partitions are not in it"

    node.check_longest_ms(MAX_MS, produced)


def short_records(codec: Codec) -> bytes:
    """A batch of short random records, as many as the kernel checks in one call."""
    values, now = random.Random(int(codec)).randbytes(5500), now_ms()
    records = [(None, values[at : at + 1], (), now) for at in range(len(values))]
    return build_batch(records, codec=codec)


@pytest.mark.parametrize("codec", Codec)
def test_a_produce_of_many_batches_whose_records_take_long(lag_node: NodeFactory, codec: Codec) -> None:
    node = lag_node({"t": 1})
    link = node.connect()
    data = short_records(codec)
    parts = [PartitionProduceData(0, data) for _ in range(600 if codec else 2000)]
    request = ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=parts)])
    produce(link, data)
    frame = encode_request(PRODUCE, 8, 7, "c", request)

    def produced() -> None:
        taken = read_produce(ask(link, frame), 8).responses[0].partition_responses
        assert [part.error_code for part in taken] == [ErrorCode.NONE] * len(parts)

    node.check_longest_ms(MAX_RECORDS_MS, produced)


def batch_of_shortest_records(count: int, max_timestamp: int) -> bytes:
    """Without keys, values and timestamps of their own."""
    records = b"\x0c\0\0\0\1\0\0" * count
    now = now_ms()
    largest = max_timestamp or now
    body = struct.pack(">hiqqqhii", 0, count - 1, now, largest, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(body) + 9, 0, 2, crc32c(body)) + body


@pytest.mark.parametrize(
    "max_timestamp", [pytest.param(0, id="as it came"), pytest.param(5, id="with a wrong timestamp")]
)
def test_a_batch_of_very_many_records(lag_node: NodeFactory, max_timestamp: int) -> None:
    node = lag_node({"t": 1})
    node.shared.slots[0, Slot.MAX_MESSAGE_BYTES] = SIZE
    link = node.connect()
    data = batch_of_shortest_records(3_500_000, max_timestamp)
    frame = produce_frame(data)

    def produced() -> None:
        link.sendall(frame)
        taken = read_produce(read_frame(link), 7).responses[0].partition_responses
        assert [part.error_code for part in taken] == [ErrorCode.NONE]

    node.check_longest_ms(MAX_MS, produced)
    log = files.path(str(node.folders[0]), 0, files.LOG)
    stored = next(read_batches(Path(log).read_bytes()))  # whose CRC is right
    assert stored.record_count == 3_500_000
    assert stored.max_timestamp == stored.base_timestamp > 5


def test_a_long_batch_is_refused_as_a_short_one_is(lag_node: NodeFactory) -> None:
    node = lag_node({"t": 1})
    node.shared.slots[0, Slot.MAX_MESSAGE_BYTES] = SIZE
    link = node.connect()
    whole = batch_of_shortest_records(500_000, 0)
    cut = bytearray(whole)
    cut[-7] = 0x0E  # the last record is longer than its batch
    struct.pack_into(">I", cut, rb.CRC, crc32c(bytes(cut[rb.ATTRIBUTES :])))
    damaged = whole[:-1] + b"x"
    answered = []
    for data in (bytes(cut), damaged, whole):
        link.sendall(produce_frame(data))
        taken = read_produce(read_frame(link), 7).responses[0].partition_responses
        answered.append(taken[0].error_code)
    assert answered == [ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_many_produces_of_one_client_whose_records_take_long(lag_node: NodeFactory, codec: Codec) -> None:
    """One turn serves few of them."""
    node, count = lag_node({"t": 1}), 200
    link = node.connect()
    data = build_batch([(None, bytes(1000), (), now_ms())] * 60, codec=codec)
    frame = produce_frame(data)
    produce(link, data)

    def produced() -> None:
        link.sendall(frame * count)
        for _ in range(count):
            assert read_produce(read_frame(link), 7).responses[0].partition_responses[0].error_code == 0

    node.check_longest_ms(MAX_RECORDS_MS, produced)


def test_a_produce_of_many_batches_that_python_looks_at(lag_node: NodeFactory) -> None:
    """And whose answer it builds, with a text for each batch."""
    node, count = lag_node({"t": 1}, answer=lambda request: framed(request.correlation_id)), 5000
    link = node.connect()
    late = build_batch([(b"k", b"v", (), now_ms() + 10**10)], codec=Codec.GZIP)
    parts = [PartitionProduceData(0, late) for _ in range(count)]
    request = ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=parts)])
    produce(link, late)
    frame = encode_request(PRODUCE, 8, 7, "c", request)

    def produced() -> None:
        refused = read_produce(ask(link, frame), 8).responses[0].partition_responses
        assert {part.error_code for part in refused} == {ErrorCode.INVALID_TIMESTAMP}
        assert len([part for part in refused if part.error_message]) == count

    node.check_longest_ms(MAX_MS, produced)
    assert ask(link, asking(2)) == framed(2)[4:]
