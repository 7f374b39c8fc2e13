"""Produce through a network process: every check, every version, order, acks."""

import os
import select
import socket
import struct
import time

import pytest

from kbroker.ipc.layout import AppendEntry, Slot, SlotFlag, SlotState
from kbroker.ipc.ring import ring_length, ring_take, wake_process
from kbroker.net.network_tables import EVENTS
from kbroker.net.rows import Token
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch, read_all, read_batches
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask, read_frame
from tests.net.produce.compressed_cases import CODECS, same_answers
from tests.net.produce.produce_cases import CASES, GOOD, resealed
from tests.net.requests import (
    PRODUCE,
    TOPIC_ID,
    batch,
    is_closed,
    now_ms,
    produce,
    produce_frame,
    read_produce,
)

VERSIONS = range(3, 14)
SASL = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_answered_with_offset_and_log_start(node_factory: NodeFactory, version: int) -> None:
    node = node_factory({"t": 2})
    node.shared.slots[1, Slot.LOG_END] = 41
    answer = produce(node.connect(), batch(count=3), version, partition=1)
    assert (answer.index, answer.error_code, answer.base_offset, answer.log_append_time_ms) == (1, 0, 41, -1)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert node.worker.batches == [(1, 41, 3)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_leaves_out_topics_without_partitions(node_factory: NodeFactory, version: int) -> None:
    """As Kafka's does."""
    node = node_factory({"t": 1, "u": 1})
    link = node.connect()
    empty, other = TopicProduceData("u", (2).to_bytes(16, "big")), TopicProduceData("t", TOPIC_ID)
    full = TopicProduceData("t", TOPIC_ID, [PartitionProduceData(0, batch())])

    def offsets_by_topic(*topics: TopicProduceData) -> list[list[int]]:
        frame = encode_request(PRODUCE, version, 1, "test", ProduceRequest(None, -1, 1000, list(topics)))
        answer = read_produce(ask(link, frame), version)
        return [[part.base_offset for part in topic.partition_responses] for topic in answer.responses]

    assert offsets_by_topic() == []
    assert offsets_by_topic(empty) == []
    assert offsets_by_topic(empty, full, other) == [[0]]
    assert offsets_by_topic(full) == [[1]]


def test_each_batch_fault_has_kafkas_error(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    found = {name: produce(link, data, version).error_code for name, (data, version, _) in CASES.items()}
    assert found == {name: error for name, (_, _, error) in CASES.items()}


def test_batches_that_are_checked_later_have_the_same_answers(node_factory: NodeFactory) -> None:
    """Those before them in the request cost more than one turn may."""
    node = node_factory({"t": 2})
    node.shared.slots[1, Slot.LOG_START] = 7
    link = node.connect()
    costly = PartitionProduceData(0, build_batch([(None, bytes(1000), (), now_ms())] * 60, codec=Codec.GZIP))
    for name, (data, version, error) in CASES.items():
        alone = produce(link, data, version, partition=1)
        parts = [costly] * 40 + [PartitionProduceData(1, data)]
        request = ProduceRequest(None, -1, 1000, [TopicProduceData("t", TOPIC_ID, parts)])
        answer = read_produce(ask(link, encode_request(PRODUCE, version, 1, "test", request)), version)
        *others, last = answer.responses[0].partition_responses
        if last.error_code not in {part.error_code for part in others}:  # else it is of the whole request
            assert {part.error_code for part in others} == {ErrorCode.NONE}, name
        assert (last.error_code, last.log_start_offset) == (error, alone.log_start_offset), name


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records_are_checked(node_factory: NodeFactory, codec: Codec) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    cases = same_answers(codec)
    found = {name: produce(link, data).error_code for name, (data, _) in cases.items()}
    assert found == {name: error for name, (_, error) in cases.items()}


@pytest.mark.parametrize("codec", CODECS)
def test_large_compressed_batches_keep_their_order(node_factory: NodeFactory, codec: Codec) -> None:
    """Threads look at the large ones, the loop at the small ones; a connection's batches are
    appended as they came."""
    node = node_factory({"t": 1})
    links = [node.connect() for _ in range(4)]
    sizes = (200_000, 10, 100_000, 50, 200_000, 1)
    for link in links:
        frames = [
            produce_frame(
                batch(os.urandom(16) * (size // 16 + 1), count=count + 1, codec=codec), number=count
            )
            for count, size in enumerate(sizes)
        ]
        link.sendall(b"".join(frames))
    for link in links:
        offsets = [read_produce(read_frame(link), 7).responses[0].partition_responses[0] for _ in sizes]
        assert [part.error_code for part in offsets] == [0] * len(sizes)
        assert sorted(part.base_offset for part in offsets) == [part.base_offset for part in offsets]
    assert sum(count for _, _, count in node.worker.batches) == len(links) * sum(range(1, len(sizes) + 1))


def test_a_client_that_leaves_while_its_batch_is_checked_does_no_harm(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    data = batch(bytes(50_000_000), codec=Codec.ZSTD)
    for _ in range(5):
        link = node.connect()
        link.sendall(produce_frame(data))
        link.close()
        assert produce(node.connect(), GOOD).error_code == 0
    deadline = time.monotonic() + 60
    while len(node.worker.batches) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(node.worker.batches) == 10


def test_a_refused_batch_does_not_touch_the_others(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 3})
    parts = [
        PartitionProduceData(0, GOOD),
        PartitionProduceData(1, GOOD[:-1] + b"\1"),
        PartitionProduceData(2, GOOD),
    ]
    topics = [TopicProduceData("t", TOPIC_ID, parts), TopicProduceData("no", bytes(16), parts[:1])]
    frame = encode_request(PRODUCE, 8, 5, "test", ProduceRequest(None, 1, 1000, topics))
    answer = read_produce(ask(node.connect(), frame), 8)
    found = [
        (t.name, p.index, p.error_code, p.base_offset)
        for t in answer.responses
        for p in t.partition_responses
    ]
    assert found == [("t", 0, 0, 0), ("t", 1, 2, -1), ("t", 2, 0, 0), ("no", 0, 3, -1)]


def test_unknown_topics_partitions_and_ids(node_factory: NodeFactory) -> None:
    link = node_factory({"t": 1}).connect()
    assert produce(link, GOOD, topic="no").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(link, GOOD, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(link, GOOD, partition=-1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(link, GOOD, 13, topic="no").error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert produce(link, GOOD, 13, partition=1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_not_online_refuses_records(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    slot = node.shared.slots[0]
    for state, error in (
        (SlotState.RECOVERING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (SlotState.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (SlotState.ONLINE, ErrorCode.NONE),
    ):
        slot[Slot.STATE] = state
        assert produce(link, GOOD).error_code == error
    slot[Slot.GENERATION] = 9
    assert produce(link, GOOD).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    slot[Slot.GENERATION] = 1
    slot[Slot.MIN_IN_SYNC_REPLICAS] = 2  # Kafka takes the number of replicas where that is lower
    assert produce(link, GOOD).error_code == ErrorCode.NONE


def test_invalid_acks_and_topics_are_refused(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1, "__consumer_offsets": 1}, internal=("__consumer_offsets",))
    link = node.connect()
    assert produce(link, GOOD, acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert produce(link, GOOD, topic="__consumer_offsets").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    node.shared.slots[0, Slot.MAX_MESSAGE_BYTES] = len(GOOD)
    assert produce(link, GOOD).error_code == ErrorCode.NONE
    node.shared.slots[0, Slot.MAX_MESSAGE_BYTES] = len(GOOD) - 1
    answer = produce(link, GOOD)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (
        ErrorCode.MESSAGE_TOO_LARGE,
        -1,
        -1,
    )


def test_errors_of_the_io_worker_reach_the_client(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    node.worker.errors[0] = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(node.connect(), GOOD).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_refuses_null_keys_and_names_the_records(
    node_factory: NodeFactory, codec: Codec
) -> None:
    node = node_factory({"t": 1})
    node.shared.slots[0, Slot.FLAGS] = SlotFlag.COMPACTED
    link = node.connect()
    records = [(b"k", b"v", (), now_ms()), (None, b"v", (), now_ms()), (b"k", b"v", (), now_ms())]
    answer = produce(link, build_batch(records, codec=codec), 8)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors] == [
        (1, "Compacted topic cannot accept message without key in topic partition t-0")
    ]
    assert answer.error_message is not None
    assert answer.error_message.startswith(
        "One or more records have been rejected due to 1 record errors in total"
    )
    assert produce(link, build_batch([(b"k", b"v", (), now_ms())], codec=codec), 8).error_code == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_timestamps_out_of_range(node_factory: NodeFactory, codec: Codec) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    late = now_ms() + 3_700_000
    answer = produce(link, build_batch([(b"k", b"v", (), late)], codec=codec), 8)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [error.batch_index for error in answer.record_errors] == [0]
    node.shared.slots[0, Slot.FLAGS] = SlotFlag.LOG_APPEND_TIME
    assert produce(link, build_batch([(b"k", b"v", (), late)], codec=codec), 8).error_code == 0
    node.shared.slots[0, Slot.FLAGS] = 0
    assert produce(link, build_batch([(b"k", b"v", (), -1)], codec=codec), 8).error_code == 0


def test_a_wrong_max_timestamp_in_the_header_is_set_right(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    assert produce(node.connect(), resealed(GOOD, rb.MAX_TIMESTAMP, ">q", 5)).error_code == 0
    stored = (node.folders[0] / f"{0:020}.log").read_bytes()
    (found,) = read_batches(stored)
    assert found.max_timestamp == max(record.timestamp_ms for record in read_all(GOOD))


@pytest.mark.parametrize("target", list(Codec))
def test_a_batch_is_stored_in_the_codec_of_the_topic(node_factory: NodeFactory, target: Codec) -> None:
    node = node_factory({"t": 1})
    node.shared.slots[0, Slot.COMPRESSION] = target
    link = node.connect()
    for codec in Codec:
        assert produce(link, batch(b"x" * 1000, 20, codec=codec)).error_code == 0
    stored = (node.folders[0] / f"{0:020}.log").read_bytes()
    batches = list(read_batches(stored))
    assert [found.codec for found in batches] == [target] * len(Codec)
    assert [record.value for record in read_all(stored)] == [b"x" * 1000] * 20 * len(Codec)


def test_pipelined_requests_are_answered_in_order(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 2})
    link = node.connect()
    node.worker.hold_entries()
    frames = [produce_frame(GOOD, 7, partition=n % 2, number=n) for n in range(50)]
    metadata = struct.pack(">ihhih", 10, 3, 0, 50, -1)
    link.sendall(b"".join(frames) + metadata)
    node.worker.hold.clear()
    numbers = [struct.unpack_from(">i", read_frame(link))[0] for _ in range(50)]
    assert numbers == list(range(50))


def test_acks_0_is_not_answered_and_an_error_closes(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    link.sendall(produce_frame(GOOD, acks=0, number=1) + produce_frame(GOOD, acks=1, number=2))
    assert struct.unpack_from(">i", read_frame(link))[0] == 2
    link.sendall(produce_frame(GOOD[:-1] + b"\1", acks=0))
    assert is_closed(link)


def test_more_partitions_than_the_ring_has_entries(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 100}, ring_entries=16)
    parts = [PartitionProduceData(p, GOOD) for p in range(100)]
    frame = encode_request(
        PRODUCE, 9, 5, "test", ProduceRequest(None, 1, 1000, [TopicProduceData("t", TOPIC_ID, parts)])
    )
    link = node.connect()
    for offset in (0, 2, 4):
        answer = read_produce(ask(link, frame), 9)
        found = [(p.index, p.error_code, p.base_offset) for p in answer.responses[0].partition_responses]
        assert found == [(p, 0, offset) for p in range(100)]


@pytest.mark.parametrize(("more", "code"), [(0, ErrorCode.NONE), (1, ErrorCode.INVALID_REQUEST)])
def test_the_largest_request_that_kernels_take(node_factory: NodeFactory, more: int, code: ErrorCode) -> None:
    """Python refuses a larger one."""
    node = node_factory({"t": 1})
    parts = [PartitionProduceData(0, GOOD)]
    parts += [PartitionProduceData(index + 1, None) for index in range(EVENTS // 2 - 1 + more)]
    frame = encode_request(
        PRODUCE, 9, 5, "test", ProduceRequest(None, 1, 1000, [TopicProduceData("t", TOPIC_ID, parts)])
    )
    (topic,) = read_produce(ask(node.connect(), frame), 9).responses
    codes = [part.error_code for part in topic.partition_responses]
    assert len(codes) == len(parts)
    assert codes[0] == code
    assert set(codes[1:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(node.worker.batches) == 1 - more


def test_a_request_of_many_chunks_is_answered(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 40})
    link = node.connect()
    value = bytes(range(256)) * 4000  # about 1 MB
    data = batch(value)
    parts = [PartitionProduceData(p, data) for p in range(40)]
    frame = encode_request(
        PRODUCE, 9, 5, "test", ProduceRequest(None, 1, 1000, [TopicProduceData("t", TOPIC_ID, parts)])
    )
    for _ in range(3):
        answer = read_produce(ask(link, frame), 9)
        assert {p.error_code for p in answer.responses[0].partition_responses} == {0}
    stored = (node.folders[39] / f"{0:020}.log").read_bytes()
    assert [record.value for record in read_all(stored)] == [value] * 3


def held_append(node: NetNode, link: socket.socket) -> list[int]:
    """The entry of a produce request whose worker is the test from now on."""
    node.worker.hold_entries()
    ring = node.shared.append_ring(0, 0)
    poll = select.poll()
    poll.register(link, select.POLLIN)
    while True:
        link.sendall(produce_frame(GOOD))
        while not ring_length(ring):
            if poll.poll(1):
                break  # the worker had not seen yet that it is to hold
        else:
            out = AppendEntry.table(1)
            assert ring_take(ring, node.shared.sizes.ring_entries, out) == 1
            return [int(word) for word in out[0]]
        read_frame(link)


@pytest.mark.parametrize(
    "other", [1 << AppendEntry.TOKEN_EPOCH_SHIFT, 1 << Token.RESULT_BITS], ids=["process", "append"]
)
def test_the_answer_to_another_append_is_ignored(node_factory: NodeFactory, other: int) -> None:
    """To one of a predecessor of this process, or of an earlier request in the same row: a worker
    that died has answered it, or its successor has."""
    node = node_factory({"t": 1})
    link = node.connect()
    entry = held_append(node, link)
    end = int(node.shared.slots[0, Slot.LOG_END])
    node.worker._complete(0, entry[AppendEntry.TOKEN] ^ other, 0, 77, 0)
    node.worker._serve(0, entry)
    wake_process(node.shared, 0)
    assert read_produce(read_frame(link), 7).responses[0].partition_responses[0].base_offset == end


def test_an_append_that_is_answered_twice_counts_once(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    entry = held_append(node, link)
    end = int(node.shared.slots[0, Slot.LOG_END])
    node.worker._serve(0, entry)
    node.worker._complete(0, entry[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0)
    wake_process(node.shared, 0)
    answer = read_produce(read_frame(link), 7).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, end)
    end = int(node.shared.slots[0, Slot.LOG_END])
    node.worker.hold.clear()
    assert produce(link, GOOD).base_offset == end


def test_a_produce_before_the_login_closes_and_writes_nothing(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=SASL)
    link = node.connect()
    link.sendall(produce_frame(batch()))
    assert is_closed(link)
    assert node.worker.batches == []
