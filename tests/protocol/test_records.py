"""Batches have Apache Kafka's bytes, come back from every codec, and damage gives ProtocolError
alone.

CAPTURED was written by Apache Kafka 4.3.1's MemoryRecords for the same records.
"""

import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.protocol import batch_layout as layout
from kbroker.protocol.compression import Codec, TooLong
from kbroker.protocol.crc32c import crc32c
from kbroker.protocol.records import (
    HEADER,
    ControlType,
    NewRecord,
    Record,
    RecordBatch,
    build_batch,
    build_control_batch,
    read_all,
    read_batches,
    read_marker,
    read_records,
    read_records_in_pieces,
    read_varint,
    read_varint32,
    write_varint,
)
from kbroker.protocol.schema import ProtocolError

CAPTURED = {
    Codec.NONE: (
        "00000000000000640000013500000004026300c25f00100000000200000000000003e800000000000003ed0000000000"
        "0000090001000000320000000356000000026b3a76616c75652076616c75652076616c75652076616c75652076616c75"
        "650402680201026e010c000a020101009e03001304009003"
    )
    + "0" * 402,
    Codec.GZIP: (
        "00000000000000640000006e00000004027ae4048200110000000200000000000003e800000000000003ed0000000000"
        "000009000100000032000000031f8b08000000000000ff0b63606060cab62a4bcc294d55c041b23065303132e531f230"
        "7031313232cc636610666198c0cc305c00006c98c5ce04010000"
    ),
    Codec.SNAPPY: (
        "00000000000000640000007c00000004028c64a89b00120000000200000000000003e800000000000003ed0000000000"
        "0000090001000000320000000382534e415050590000000001000000010000003784023056000000026b3a76616c7565"
        "205a06005c0402680201026e010c000a020101009e0300130400900300fe0100fe0100fe01001101"
    ),
    Codec.LZ4: (
        "0000000000000064000000740000000402aa61771d00130000000200000000000003e800000000000003ed0000000000"
        "0000090001000000320000000304224d1860408234000000df56000000026b3a76616c756520060004ff090402680201"
        "026e010c000a020101009e03001304009003000100b050000000000000000000"
    ),
    Codec.ZSTD: (
        "00000000000000640000006d00000004022179602300140000000200000000000003e800000000000003ed0000000000"
        "0000090001000000320000000328b52ffd0058840100540256000000026b3a76616c7565200402680201026e010c000a"
        "020101009e030013040090030002001471d498ba7c01010000"
    ),
}
COMMIT = (
    "000000000000000a000000420000000302f985618b00300000000000000000000003e800000000000003e80000000000"
    "0000070002ffffffff000000012000000008000000010c00000000000500"
)
ABORT = (
    "000000000000000a0000004200000003020dbbb7c300300000000000000000000003e800000000000003e80000000000"
    "0000070002ffffffff000000012000000008000000000c00000000000500"
)

NEW: list[NewRecord] = [
    (b"k", b"value value value value value", (("h", b"\1"), ("n", None)), 1000),
    (None, None, (), 1005),
    (b"", bytes(200), (), 990),
]
READ = [
    Record(100, 1000, b"k", b"value value value value value", (("h", b"\1"), ("n", None))),
    Record(101, 1005, None, None),
    Record(102, 990, b"", bytes(200)),
]
NAMES = st.text(max_size=10)
BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(BYTES, BYTES, st.lists(st.tuples(NAMES, BYTES), max_size=3), st.integers(-1, 2**62)),
    min_size=1,
    max_size=20,
)


def build(codec: Codec) -> bytes:
    return build_batch(
        NEW, base_offset=100, producer=(9, 1, 50), partition_leader_epoch=4, codec=codec, transactional=True
    )


def test_an_uncompressed_batch_has_kafkas_bytes() -> None:
    assert build(Codec.NONE).hex() == CAPTURED[Codec.NONE]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_that_kafka_wrote_are_read(codec: Codec) -> None:
    (batch,) = read_batches(bytes.fromhex(CAPTURED[codec]), whole=True)
    assert (batch.codec, batch.is_transactional, batch.is_control) == (codec, True, False)
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 102, 3)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1005)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 50)
    assert list(read_records(batch)) == READ


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=30, deadline=None)
@given(records=RECORDS)
def test_records_come_back_from_every_codec(codec: Codec, records: list[NewRecord]) -> None:
    data = build_batch(records, base_offset=7, codec=codec)
    found = list(read_all(memoryview(data + data)))
    expected = [Record(7 + i, t, k, v, tuple(h)) for i, (k, v, h, t) in enumerate(records)]
    assert found == expected + expected
    (batch,) = read_batches(data)
    assert list(read_records_in_pieces(batch, 1 << 20, 3)) == expected


def test_markers_have_kafkas_bytes() -> None:
    for type_, captured in ((ControlType.COMMIT, COMMIT), (ControlType.ABORT, ABORT)):
        data = build_control_batch(
            type_,
            producer_id=7,
            producer_epoch=2,
            coordinator_epoch=5,
            timestamp_ms=1000,
            base_offset=10,
            partition_leader_epoch=3,
        )
        assert data.hex() == captured
        (batch,) = read_batches(data)
        assert batch.is_control
        assert read_marker(batch) == (type_, 5)
        assert list(read_all(data)) == []


def test_log_append_time_replaces_the_timestamps() -> None:
    (batch,) = read_batches(build_batch(NEW, log_append_time_ms=5000))
    assert batch.has_log_append_time
    assert [record.timestamp_ms for record in read_records(batch)] == [5000] * 3


def test_a_truncated_last_batch_ends_the_reading_or_is_refused() -> None:
    data = build(Codec.NONE)
    cut = data + data[:-1]
    assert [batch.size for batch in read_batches(cut)] == [len(data)]
    assert list(read_batches(data[:60])) == []
    with pytest.raises(ProtocolError, match="truncated"):
        list(read_batches(cut, whole=True))


def test_a_flipped_bit_after_the_crc_is_found() -> None:
    data = bytearray(build(Codec.GZIP))
    data[-1] ^= 1
    with pytest.raises(ProtocolError, match="CRC"):
        list(read_batches(data))
    assert len(list(read_batches(data, check_crc=False))) == 1


def test_offset_and_leader_epoch_lie_outside_the_crc() -> None:
    data = bytearray(build(Codec.NONE))
    data[layout.BASE_OFFSET : layout.LENGTH] = (500).to_bytes(8, "big")
    data[layout.PARTITION_LEADER_EPOCH : layout.MAGIC] = (9).to_bytes(4, "big")
    (batch,) = read_batches(data)
    assert (batch.base_offset, batch.partition_leader_epoch) == (500, 9)


def test_other_magics_and_lengths_are_refused() -> None:
    data = bytearray(build(Codec.NONE))
    data[layout.MAGIC] = 1
    with pytest.raises(ProtocolError, match="magic 1"):
        list(read_batches(data))
    data[layout.MAGIC] = 2
    data[layout.LENGTH : layout.PARTITION_LEADER_EPOCH] = (-1).to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match="batch length -1"):
        list(read_batches(data))


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_damaged_batches_give_records_or_a_protocol_error(codec: Codec, seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(build(codec))
    for _ in range(rng.randint(1, 5)):
        data[rng.randrange(layout.ATTRIBUTES, len(data))] = rng.randrange(256)
    del data[len(data) - rng.choice([0, 0, 1, 5]) :]
    data[layout.LENGTH : layout.PARTITION_LEADER_EPOCH] = (len(data) - 12).to_bytes(4, "big")
    with suppress(ProtocolError):
        for batch in read_batches(data, check_crc=False):
            list(read_records(batch, max_bytes=10_000))


def test_an_empty_batch_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    out = bytearray(b"?")
    write_varint(out, value)
    assert read_varint(out, 1) == (value, len(out))


@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_of_32_bits_come_back(value: int) -> None:
    out = bytearray(b"?")
    write_varint(out, value)
    assert read_varint32(out, 1) == (value, len(out))


def test_varints_of_32_bits_have_five_bytes_and_lose_what_is_beyond() -> None:
    assert read_varint32(b"\xff\xff\xff\xff\x7f", 0) == (-(2**31), 5)
    assert read_varint32(b"\x82\x80\x80\x80\x70", 0) == (1, 5)
    with pytest.raises(ProtocolError, match="more than 5 bytes"):
        read_varint32(b"\x82\x80\x80\x80\x80\0", 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_headers_of_all_records_of_a_batch_have_a_bound(codec: Codec) -> None:
    """A header of two bytes takes a hundred bytes of memory: 128 MiB of records took gigabytes."""
    records: list[NewRecord] = [(b"k", None, [("", None)] * 3, 0)] * 4
    (batch,) = read_batches(build_batch(records, codec=codec))
    assert [len(record.headers) for record in read_records(batch, max_headers=12)] == [3] * 4
    found = read_records(batch, max_headers=11)
    assert [len(next(found).headers) for _ in range(3)] == [3] * 3
    with pytest.raises(TooLong, match="more headers than allowed"):
        next(found)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_records_are_read_in_pieces_with_a_bound_for_each(codec: Codec) -> None:
    """Before, `kbroker log dump --deep` decompressed all of a batch."""
    records: list[NewRecord] = [(None, bytes(1 << 20), [("", None)] * 2, 0)] * 64
    (batch,) = read_batches(build_batch(records, codec=codec))
    tracemalloc.start()
    try:
        sizes = [len(record.value or b"") for record in read_records_in_pieces(batch, 2 << 20, 2)]
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()
    assert sizes == [1 << 20] * 64
    with pytest.raises(TooLong, match=r"a record of 1048.* more than the 1048576 allowed"):
        next(read_records_in_pieces(batch, 1 << 20, 2))
    with pytest.raises(TooLong, match="more headers than allowed"):
        next(read_records_in_pieces(batch, 2 << 20, 1))


def raw_batch(body: bytes, count: int = 1, attributes: int = 0) -> RecordBatch:
    """A batch with these bytes as its records; its CRC is 0."""
    length = layout.HEADER_BYTES - layout.LENGTH_OVERHEAD + len(body)
    fields = (attributes, count - 1, 1000, 1000, -1, -1, -1, count)
    (batch,) = read_batches(HEADER.pack(5, length, 0, 2, 0, *fields) + body, check_crc=False, whole=True)
    return batch


def test_records_of_handmade_bytes_are_read() -> None:
    """Size 7, attributes, time delta 1, offset delta 2, key k, no value, no headers."""
    body = bytes((14, 0, 2, 4, 2, 107, 1, 0))
    assert list(read_records(raw_batch(body))) == [Record(7, 1001, b"k", None)]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (bytes((16, 0, 2, 4, 2, 107, 1, 0)), "a record ends after its batch"),
        (bytes((1,)), "a record ends after its batch"),
        (bytes((14, 0, 2, 4, 2, 107, 1, 0, 0)), "1 bytes after the last record of a batch"),
        (bytes((16, 0, 2, 4, 2, 107, 1, 0, 0)), "1 bytes after the headers of a record"),
        (bytes((14, 0, 2, 4, 8, 107, 1, 0)), "a key, value or header ends after its record"),
        (bytes((14, 0, 2, 4, 2, 107, 1, 1)), "a record with -1 headers"),
        (bytes((14, 0, 2, 4, 2, 107, 1, 2)), "a record with 1 headers"),
        (bytes((18, 0, 2, 4, 2, 107, 1, 2, 1, 1)), "a record header without a name"),
        (bytes((8, 0, 2, 4, 1)), "the batch at offset 5 is damaged"),
    ],
)
def test_a_damaged_record_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        list(read_records(raw_batch(body)))
    with pytest.raises(ProtocolError, match=why.removeprefix("1 ")):
        list(read_records_in_pieces(raw_batch(body), 100, 100))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (None, bytes(6), "without key or value"),
        (bytes(4), None, "without key or value"),
        (bytes(3), bytes(6), "too short"),
        (bytes(4), bytes(5), "too short"),
        (b"\0\0\0\2", bytes(6), "control record type 2 is not a transaction marker"),
    ],
)
def test_a_control_record_that_is_no_marker_is_refused(
    key: bytes | None, value: bytes | None, why: str
) -> None:
    (batch,) = read_batches(build_batch([(key, value, (), 0)], control=True))
    with pytest.raises(ProtocolError, match=why):
        read_marker(batch)


def test_a_batch_without_records_is_no_shorter_than_its_header() -> None:
    data = bytearray(HEADER.pack(5, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 0))
    (batch,) = read_batches(data, check_crc=False, whole=True)
    assert (batch.size, batch.last_offset, list(read_records(batch))) == (61, 5, [])
    data[layout.LENGTH : layout.PARTITION_LEADER_EPOCH] = (48).to_bytes(4, "big")
    with pytest.raises(ProtocolError, match="byte 0: batch length 48"):
        list(read_batches(data, check_crc=False))


def test_the_largest_time_of_a_batch_is_that_of_its_records_or_of_its_append() -> None:
    (batch,) = read_batches(build_batch(NEW))
    assert (batch.base_timestamp, batch.max_timestamp, batch.has_log_append_time) == (1000, 1005, False)
    (batch,) = read_batches(build_batch(NEW, log_append_time_ms=5000))
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 5000)


def test_lengths_and_deltas_beyond_the_prepared_ones_come_back() -> None:
    records: list[NewRecord] = [(b"", bytes(size), (), 0) for size in (2030, 2047, 2048, 9000)]
    records += [(None, None, (), time) for time in (2047, 2048, 9000)] * 700
    found = list(read_all(build_batch(records)))
    assert found == [Record(at, time, key, value) for at, (key, value, _, time) in enumerate(records)]


def test_a_header_name_that_is_not_utf8_is_shown_with_replacements() -> None:
    """A client may write one: a reader that refused it could not read the records after it."""
    batch = bytearray(build_batch([(b"k", b"v", (("name", b"1"),), 1), (b"k", b"v", (), 1)]))
    at = batch.index(b"name")
    batch[at : at + 4] = b"a\xff\xfeb"
    batch[layout.CRC : layout.CRC + 4] = crc32c(batch[layout.ATTRIBUTES :]).to_bytes(4)
    assert [record.headers for record in read_all(bytes(batch))] == [(("a\ufffd\ufffdb", b"1"),), ()]


def test_the_contents_of_a_record_are_its_key_value_and_headers() -> None:
    assert Record(0, 0, b"key", b"value", (("name", b"12"), ("n", None))).contents_bytes == 15
    assert Record(0, 0, None, None).contents_bytes == 0


def test_varints_have_no_more_than_ten_bytes() -> None:
    assert read_varint(b"\x80" * 9 + b"\1", 0) == (1 << 62, 10)
    with pytest.raises(ProtocolError, match="more than 10 bytes"):
        read_varint(b"\x80" * 10 + b"\0", 0)
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)
