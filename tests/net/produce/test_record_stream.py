"""Records as a stream: the heads that a whole reading finds, and offset deltas that count up."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kbroker.net.produce.record_stream import counted, heads, sizes
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import RecordBatch, build_batch, read_batches, read_records

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=3000),
        st.just(()) | st.just((("name", b"content"), ("empty", None))),
        st.integers(1, 1 << 41),
    ),
    min_size=1,
    max_size=20,
)


def _batch(records: list[tuple[object, ...]], codec: Codec) -> RecordBatch:
    return next(read_batches(build_batch(records, codec=codec)))


@given(records=RECORDS, codec=st.sampled_from(list(Codec)))
def test_heads_are_those_of_the_complete_records(records: list[tuple[object, ...]], codec: Codec) -> None:
    batch = _batch(records, codec)
    found = [(h.timestamp_delta + batch.base_timestamp, h.offset_delta, h.has_key) for h in heads(batch)]
    assert found == [(r.timestamp_ms, r.offset, r.key is not None) for r in read_records(batch)]


@given(records=RECORDS, codec=st.sampled_from(list(Codec)))
def test_sizes_are_those_of_keys_and_values(records: list[tuple[Any, ...]], codec: Codec) -> None:
    found = list(sizes(_batch(records, codec)))
    assert found == [
        (-1 if key is None else len(key), -1 if value is None else len(value)) for key, value, *_ in records
    ]


@given(records=RECORDS, codec=st.sampled_from(list(Codec)))
def test_counted_records_that_counted_before_stay_as_they_are(
    records: list[tuple[object, ...]], codec: Codec
) -> None:
    batch = _batch(records, codec)
    assert b"".join(counted(batch)) == build_batch(records)[rb.RECORDS :]


def test_deltas_that_do_not_count_up_are_recounted() -> None:
    plain = b"".join(_record(delta, b"v" * 5000) for delta in (0, 500, 3))
    whole = bytearray(build_batch([(None, b"v" * 5000, (), 7)] * 3))
    batch = next(read_batches(bytes(whole)))._replace(data=memoryview(bytes(whole[: rb.RECORDS]) + plain))
    assert b"".join(counted(batch)) == build_batch([(None, b"v" * 5000, (), 7)] * 3)[rb.RECORDS :]


def _record(delta: int, value: bytes) -> bytes:
    body = b"\0\0" + _varint(delta) + b"\1" + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    word, out = value << 1, bytearray()
    while word > 127:
        out.append(word & 127 | 128)
        word >>= 7
    return bytes([*out, word])
