"""The first record of a batch at or after a time equals a plain search, whatever the pieces of the
batch are."""

import random
import struct
import tracemalloc
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels.crc32c import crc32c
from kbroker.log import record_times
from kbroker.log.record_times import first_record
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec, TooLong, bounded_pieces
from kbroker.protocol.records import NewRecord, RecordBatch, build_batch, read_batches, read_records
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.streamed_compression import compress_pieces

NEW = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=90), st.just(()), st.integers(0, 60)
    ),
    min_size=1,
    max_size=12,
)


def plain(batch: RecordBatch, timestamp: int, min_offset: int) -> tuple[int, int] | None:
    for record in read_records(batch):
        if record.timestamp_ms >= timestamp and record.offset >= min_offset:
            return record.timestamp_ms, record.offset
    return None


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=60, deadline=None)
@given(
    new=NEW, timestamp=st.integers(-1, 62), min_offset=st.integers(95, 115), piece_bytes=st.integers(1, 60)
)
def test_the_first_record_is_that_of_a_plain_search(
    codec: Codec, new: list[NewRecord], timestamp: int, min_offset: int, piece_bytes: int
) -> None:
    (batch,) = read_batches(build_batch(new, base_offset=100, codec=codec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_times, "bounded_pieces", partial(bounded_pieces, piece_bytes=piece_bytes))
        found = first_record(batch, timestamp, min_offset)
    assert found == plain(batch, timestamp, min_offset)


def test_all_records_of_a_batch_have_its_append_time() -> None:
    new: list[NewRecord] = [(None, b"v", (), at) for at in (1, 2, 3)]
    (batch,) = read_batches(build_batch(new, base_offset=7, log_append_time_ms=5000))
    assert first_record(batch, 4000) == (5000, 7)
    assert first_record(batch, 4000, 9) == (5000, 9)
    assert first_record(batch, 5001) is None


@pytest.mark.parametrize("codec", list(Codec))
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_damaged_batches_give_a_record_or_a_protocol_error(codec: Codec, seed: int) -> None:
    rng = random.Random(seed)
    new: list[NewRecord] = [(b"k", b"value" * 9, [("h", b"x")], at) for at in range(9)]
    data = bytearray(build_batch(new, codec=codec))
    for _ in range(rng.randint(1, 5)):
        data[rng.randrange(rb.ATTRIBUTES, len(data))] = rng.randrange(256)
    with suppress(ProtocolError):
        for batch in read_batches(bytes(data), check_crc=False):
            first_record(batch, rng.randrange(20))


@pytest.mark.parametrize("cut", [1, 4])
def test_records_that_end_early_are_damaged(cut: int) -> None:
    data = bytearray(build_batch([(None, None, (), 5)]))
    data[rb.RECORDS] = 2 if cut == 1 else 40  # zigzag: a record of one byte, of more than there are
    (batch,) = read_batches(bytes(data), check_crc=False)
    with pytest.raises(ProtocolError):
        first_record(batch, 6)


def test_a_batch_that_decompresses_to_very_much_takes_little_memory() -> None:
    """It was decompressed as a whole, up to a gigabyte."""
    count, record = 200_000, bytes((138, 1, 0, 0, 0, 1, 120, *bytes(60), 0))
    record = bytes((2 * (len(record) - 2) & 127 | 128, 2 * (len(record) - 2) >> 7)) + record[2:]
    body = compress_pieces(Codec.GZIP, (record * 1000 for _ in range(count // 1000)), 1, 1 << 30)
    out = bytearray(build_batch([(None, None, (), 1)])[: rb.RECORDS]) + body
    struct.pack_into(">i", out, rb.LENGTH, len(out) - rb.LENGTH_OVERHEAD)
    struct.pack_into(">h", out, rb.ATTRIBUTES, Codec.GZIP)
    struct.pack_into(">i", out, rb.RECORD_COUNT, count)
    struct.pack_into(">I", out, rb.CRC, crc32c(memoryview(out)[rb.ATTRIBUTES :]))
    (batch,) = read_batches(bytes(out))
    tracemalloc.start()
    assert first_record(batch, 2) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * len(record) / 2


def test_a_batch_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_times, "MAX_BYTES", 1000)
    new: list[NewRecord] = [(None, bytes(500), (), 1)] * 3
    (batch,) = read_batches(build_batch(new, codec=Codec.ZSTD))
    with pytest.raises(TooLong):
        first_record(batch, 2)
