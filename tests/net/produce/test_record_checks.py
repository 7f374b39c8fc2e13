"""What is stored of a batch that the topic wants otherwise than it came."""

import pytest
from msgspec.structs import replace

from kbroker.net.produce.record_checks import Rules, check
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import RecordBatch, build_batch, read_batches, read_records
from tests.net.produce.compressed_cases import CODECS, packed, record
from tests.net.requests import now_ms

KEEP = Rules("t-0", False, False, 1 << 62, 1 << 62, 1 << 20, -1, 0)


def stored(data: bytes, rules: Rules) -> RecordBatch:
    validation = check(data, rules, now_ms())
    assert validation.error is ErrorCode.NONE
    return next(read_batches(data if validation.data is None else validation.data))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("target", list(Codec))
def test_another_codec_keeps_the_records(codec: Codec, target: Codec) -> None:
    records = [(b"k%d" % i, b"value" * i, (("h", b"x"),), 1_700_000_000_000 + i) for i in range(50)]
    data = build_batch(records, codec=codec, producer=(7, 1, 30))
    batch = stored(data, replace(KEEP, target=int(target), level=3))
    assert batch.codec == target
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 30)
    found = [(one.key, one.value, one.headers, one.timestamp_ms) for one in read_records(batch)]
    assert found == records


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -5, 19)]
)
def test_the_topics_level_is_used(codec: Codec, low: int, high: int) -> None:
    text = b"".join(b"%d some words, the same again and again; " % (i * i) for i in range(2000))
    data = build_batch([(b"k", text, (), now_ms())])
    sizes = [len(stored(data, replace(KEEP, target=int(codec), level=level)).data) for level in (low, high)]
    assert sizes[1] < sizes[0] < len(data)


@pytest.mark.parametrize("more", [rb.ATTRIBUTE_DELETE_HORIZON, 0x80, 0x4000])
def test_another_codec_drops_the_attributes_that_kafka_drops(more: int) -> None:
    data = bytearray(build_batch([(b"k", b"v", (), now_ms())], producer=(7, 1, 30), transactional=True))
    attributes = int.from_bytes(data[rb.ATTRIBUTES : rb.ATTRIBUTES + 2], "big") | more
    data[rb.ATTRIBUTES : rb.ATTRIBUTES + 2] = attributes.to_bytes(2, "big")
    batch = stored(bytes(data), replace(KEEP, target=int(Codec.GZIP), level=6))
    assert batch.attributes == rb.ATTRIBUTE_TRANSACTIONAL | Codec.GZIP


def test_another_codec_refuses_a_producer_without_an_epoch() -> None:
    data = build_batch([(b"k", b"v", (), now_ms())], producer=(7, -1, 0))
    other = replace(KEEP, target=int(Codec.GZIP), level=6)
    assert check(data, other, now_ms()).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert check(data, KEEP, now_ms()).error is ErrorCode.NONE


def test_offsets_in_disorder_are_recounted_with_the_codec() -> None:
    data = packed(Codec.LZ4, record(3), record(0))
    batch = stored(data, replace(KEEP, target=int(Codec.GZIP), level=-1))
    assert [one.offset for one in read_records(batch)] == [0, 1]
    assert check(data, KEEP, now_ms()).error is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", CODECS)
def test_the_largest_timestamp_is_put_right(codec: Codec) -> None:
    records = [(b"k", b"v", (), at) for at in (1_700_000_000_500, 1_700_000_000_900, 1_700_000_000_100)]
    data = bytearray(build_batch(records, codec=codec))
    right = next(read_batches(bytes(data))).max_timestamp
    data[35:43] = bytes(8)  # the header's largest timestamp; the kernel looks at the CRC, not this
    assert stored(bytes(data), KEEP).max_timestamp == right == 1_700_000_000_900


@pytest.mark.parametrize(
    ("codec", "target", "shown"),
    [
        (Codec.NONE, -1, "DefaultRecord(offset=1, timestamp=5, key=0 bytes, value=3 bytes)"),
        (Codec.GZIP, -1, "PartialDefaultRecord(offset=1, timestamp=5, key=-1 bytes, value=3 bytes)"),
        (Codec.GZIP, int(Codec.LZ4), "DefaultRecord(offset=1, timestamp=5, key=0 bytes, value=3 bytes)"),
    ],
)
def test_a_record_with_the_brokers_timestamp_type_is_named_as_in_kafka(
    codec: Codec, target: int, shown: str
) -> None:
    data = build_batch([(b"k", b"value", (), 1), (None, b"abc", (), 2)], codec=codec, log_append_time_ms=5)
    validation = check(data, replace(KEEP, log_append_time=True, target=target), now_ms())
    assert validation.error is ErrorCode.INVALID_TIMESTAMP
    text = (
        f"Invalid timestamp type in message {shown}. Producer should not set timestamp type to LogAppendTime."
    )
    assert validation.record_errors[1] == (1, text)
