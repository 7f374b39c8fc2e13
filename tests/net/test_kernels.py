"""Kernels of the network process compared with plain Python: records, topics, chunks."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.kernels.wire import read_uvarint, read_varint, read_varint32
from kbroker.net.network_tables import CHUNK_BYTES, NetworkTables
from kbroker.net.produce.check_kernel import WALK_BROKEN, WALK_DAMAGED, WALK_REFUSED, WALK_VALID, walk_records
from kbroker.net.produce.record_walk import Demands, WalkResult
from kbroker.net.produce.record_walk import walk as walk_pieces
from kbroker.net.rows import Context, Topic
from kbroker.net.rows.chunk_kernel import release_chunk, reserve_bytes
from kbroker.net.rows.topic_kernel import topic_by_id, topic_by_name
from kbroker.net.topics import Topics
from kbroker.protocol import batch_layout as rb
from kbroker.protocol import records
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch, read_batches, read_records
from kbroker.protocol.schema import ProtocolError
from tests.log.batch_bytes import FIELDS, padded_record
from tests.net.produce.compressed_cases import with_body
from tests.net.tables import new_tables

FAR = 1 << 62


def _varints(address: int, length: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return read_uvarint(address, address + length), read_varint(address, address + length)


def _lookup(cx: int, name: int, length: int, topic_id: int) -> tuple[int, int]:
    return topic_by_name(cx, name, length), topic_by_id(cx, topic_id)


def walk(data: bytes, keys: bool = False, oldest: int = -(1 << 62), newest: int = 1 << 62) -> tuple[int, int]:
    context = Context.row()
    view = np.frombuffer(data, np.uint8).copy()
    outcome = walk_records(context.ctypes.data, view.ctypes.data, len(data), keys, oldest, newest)
    return outcome, int(context[Context.WALK_MAX_TIMESTAMP])


RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=3),
        st.integers(-1, 1 << 45),
    ),
    min_size=1,
    max_size=8,
)


@given(RECORDS)
@settings(max_examples=200, deadline=None)
def test_records_that_are_in_order_are_walked_to_the_end(records: list[Any]) -> None:
    data = build_batch(records)
    stamps = [record[3] for record in records]
    assert walk(data) == (WALK_VALID, max(stamps))
    keyless = any(record[0] is None for record in records)
    assert walk(data, keys=True)[0] == (WALK_REFUSED if keyless else WALK_VALID)
    late = max(stamps) > 1000
    assert walk(data, newest=1000)[0] == (WALK_REFUSED if late else WALK_VALID)
    old = any(-1 != stamp < 1000 for stamp in stamps)
    assert walk(data, oldest=1000)[0] == (WALK_REFUSED if old else WALK_VALID)


@given(RECORDS, st.integers(0, 1 << 30), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_damaged_records_are_found_as_python_finds_them(records: list[Any], at: int, change: int) -> None:
    data = bytearray(build_batch(records))
    data[rb.RECORDS + at % (len(data) - rb.RECORDS)] ^= change
    batch = next(read_batches(bytes(data), check_crc=False))
    try:
        list(read_records(batch))
        broken = False
    except ProtocolError as error:
        if "utf-8" in str(error).lower():
            return  # a header's name: the kernel leaves texts alone, as Kafka does
        broken = True
    except (OverflowError, ValueError):
        return
    assert (walk(bytes(data))[0] in (WALK_BROKEN, WALK_DAMAGED)) == broken


WIDTHS = st.dictionaries(st.sampled_from(FIELDS), st.integers(1, 12), max_size=2)


@given(WIDTHS)
@settings(max_examples=300, deadline=None)
def test_numbers_of_a_record_are_as_long_as_kafka_reads_them_in_python_as_in_kernels(
    widths: dict[str, int],
) -> None:
    data = with_body(build_batch([(b"k", b"v", (), 0)]), padded_record(widths))
    longest = {name: 10 if name == "timestamp" else 5 for name in FIELDS}
    fine = all(width <= longest[name] for name, width in widths.items())
    batch = next(read_batches(data))
    try:
        read = [(each.timestamp_ms, each.key, each.value, each.headers) for each in read_records(batch)]
    except ProtocolError:
        read = []
    assert read == ([(5, b"k", b"v", (("n", b"c"),))] if fine else [])
    size = widths.get("size", 1) > 5
    lost = (WALK_DAMAGED if size else WALK_BROKEN), 0
    assert walk(data) == ((WALK_VALID, 5) if fine else lost)
    found = walk_pieces(batch, batch.data[rb.RECORDS :], Demands(-FAR, FAR, False, ordered=True, sized=True))
    error = ErrorCode.UNKNOWN_SERVER_ERROR if size else ErrorCode.INVALID_RECORD
    assert found == WalkResult(largest=5) if fine else found.error == error


@given(st.binary(min_size=1, max_size=12))
@settings(max_examples=500, deadline=None)
def test_varints_of_32_bits_are_read_in_python_as_in_kernels(data: bytes) -> None:
    view = np.frombuffer(data, np.uint8).copy()
    value, behind = read_varint32(view.ctypes.data, view.ctypes.data + len(data))
    try:
        expected = records.read_varint32(data, 0)
    except (ProtocolError, IndexError):
        assert behind == -1
    else:
        assert (value, behind - view.ctypes.data) == expected
        assert -(1 << 31) <= value < 1 << 31


@given(st.binary(min_size=1, max_size=12))
@settings(max_examples=500, deadline=None)
def test_varints_have_their_value_or_are_refused(data: bytes) -> None:
    view = np.frombuffer(data, np.uint8).copy()
    (unsigned, behind), (signed, behind_signed) = _varints(view.ctypes.data, len(data))
    end = next((i + 1 for i, byte in enumerate(data) if byte < 0x80), None)
    value = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(data[:end]))
    if end is None or end > 5 or value >= 1 << 32:
        assert behind == -1
    else:
        assert (unsigned, behind - view.ctypes.data) == (value, end)
    if end is None or end > 10:
        assert behind_signed == -1
    elif value < 1 << 63:
        assert (signed, behind_signed - view.ctypes.data) == ((value >> 1) ^ -(value & 1), end)


def small_tables() -> NetworkTables:
    return new_tables({"socket.request.max.bytes": "16777216"}, arena_bytes=32 << 20)


@pytest.fixture
def tables() -> NetworkTables:
    return small_tables()


def lookup(tables: NetworkTables, name: str, topic_id: bytes) -> tuple[int, int]:
    """Row numbers of a topic by name and by id, -1 for none."""
    view = np.frombuffer(topic_id + name.encode(), np.uint8).copy()
    with np.errstate(over="ignore"):  # of the hash, without kernels
        found = _lookup(tables.address, view.ctypes.data + 16, len(name), view.ctypes.data)
    table = int(tables.words[Context.TOPICS])
    by_name, by_id = ((row - table) // (Topic.STRIDE) if row else -1 for row in found)
    return by_name, by_id


def image(name: str, partitions: int, salt: int) -> TopicImage:
    parts = tuple(PartitionImage(i, (salt + i) % 64, salt, "/x") for i in range(partitions))
    return TopicImage(name, random.Random(f"{name}{salt}").randbytes(16), salt % 2 == 0, parts)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_the_kernels_topic_table_is_the_dict(data: st.DataObject) -> None:
    tables = small_tables()
    topics = Topics(tables)
    names = [f"topic-{n}" * (1 + n % 3) for n in range(60)]
    known: dict[str, TopicImage] = {}
    for salt in range(data.draw(st.integers(1, 40))):
        full = data.draw(st.integers(0, 9)) == 0
        fresh = [image(n, 1 + salt % 5, salt) for n in data.draw(st.sets(st.sampled_from(names), max_size=5))]
        deleted = () if full else tuple(data.draw(st.sets(st.sampled_from(names), max_size=3)))
        if full:
            known.clear()
        for name in deleted:
            known.pop(name, None)
        known.update((topic.name, topic) for topic in fresh)
        topics.apply(fresh, deleted, full, salt)
    assert topics.by_name == known
    assert topics.by_id == {topic.topic_id: topic for topic in known.values()}
    for name in names:
        topic = known.get(name)
        row, by_id = lookup(tables, name, topic.topic_id if topic else bytes(16))
        if topic is None:
            assert (row, by_id) == (-1, -1)
            continue
        assert row == by_id == topics.row_of(name)
        words = np.ctypeslib.as_array(
            (np.ctypeslib.ctypes.c_int64 * Topic.WORDS).from_address(  # type: ignore[attr-defined]
                int(tables.words[Context.TOPICS]) + row * Topic.STRIDE
            )
        )
        assert words[Topic.COUNT] == len(topic.partitions)
        assert bool(words[Topic.INTERNAL]) == topic.internal


@pytest.mark.parametrize("shared", [slice(0, 8), slice(8, 16)])
def test_topic_ids_that_share_a_half_are_distinguished(tables: NetworkTables, shared: slice) -> None:
    """Their other halves differ where the index does not see it, so all begin at one place."""
    topics = Topics(tables)
    ids = []
    for number in range(4):
        halves = [bytearray(range(1, 9)), bytearray(range(11, 19))]
        halves[0 if shared.start else 1][7] = number
        ids.append(bytes(halves[0] + halves[1]))
    assert len({topic_id[shared] for topic_id in ids}) == 1
    absent, *present = ids
    named = dict(zip("abc", present, strict=True))
    part = PartitionImage(0, 1, 1, "/x")
    topics.apply([TopicImage(name, each, False, (part,)) for name, each in named.items()], (), False, 1)
    for name, topic_id in named.items():
        assert lookup(tables, name, topic_id) == (topics.row_of(name), topics.row_of(name))
    assert lookup(tables, "d", absent) == (-1, -1)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9 << 20)), max_size=60), st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_reserved_ranges_never_overlap_and_all_come_back(steps: list[tuple[bool, int]], seed: int) -> None:
    tables = small_tables()
    chance = random.Random(seed)
    held: list[tuple[int, int]] = []
    for take, size in steps:
        if not take and held:
            start, _ = held.pop(chance.randrange(len(held)))
            release_chunk(tables.address, start // CHUNK_BYTES)
            continue
        start = reserve_bytes(tables.address, size)
        if start < 0:
            continue
        assert start + size <= tables.arena.size
        assert all(start + size <= other or other + length <= start for other, length in held)
        held.append((start, size))
    for start, _ in held:
        release_chunk(tables.address, start // CHUNK_BYTES)
    current = 0 if tables.words[Context.CURRENT] < 0 else 1
    assert tables.words[Context.FREE_CHUNK_COUNT] + current == tables.arena.size // CHUNK_BYTES


def test_memory_of_unused_chunks_goes_back(tables: NetworkTables) -> None:
    start = reserve_bytes(tables.address, 8 << 20)
    tables.arena_bytes[start : start + (8 << 20)] = bytes(8 << 20)
    release_chunk(tables.address, start // CHUNK_BYTES)
    tables.trim()
    assert not tables.release_chunk(), "it was used a moment ago"
    tables.trim()
    assert [tables.release_chunk() for _ in range(5)] == [True] * 4 + [False]
    again = reserve_bytes(tables.address, 8 << 20)
    tables.arena_bytes[again : again + (8 << 20)] = bytes(8 << 20)
    tables.trim()
    assert not tables.release_chunk()
