"""Compressed batches with a valid header and CRC, whose records do not match the header."""

import struct

import cramjam
import lz4.frame
from hypothesis import strategies as st

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch
from tests.log.batch_bytes import padded, padded_record, varint
from tests.net.produce.produce_cases import resealed
from tests.net.requests import now_ms

CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3),
        st.integers(-1, 1 << 45),
    ),
    min_size=1,
    max_size=8,
)
"""Arguments of `build_batch`: any few records."""
LINKED = 0x20
"""Bit of an lz4 frame's flags: its blocks are independent."""


def with_body(data: bytes, body: bytes) -> bytes:
    """A batch with a different records section, as on the wire."""
    out = bytearray(data[: rb.RECORDS]) + body
    struct.pack_into(">i", out, rb.LENGTH, len(out) - rb.LENGTH_OVERHEAD)
    struct.pack_into(">I", out, rb.CRC, crc32c(bytes(out[rb.ATTRIBUTES :])))
    return bytes(out)


def record(
    delta: int, key: bytes | None = b"k", value: bytes = b"v", size: int | None = None, tail: bytes = b""
) -> bytes:
    """One record at its batch's base timestamp. size: its declared size; tail: bytes after its
    headers."""
    coded = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0\0" + varint(delta) + coded + varint(len(value)) + value + b"\0" + tail
    return varint(len(body) if size is None else size) + body


def good(codec: Codec) -> bytes:
    """A batch of two records."""
    return build_batch([(b"a", b"value", (), now_ms()), (b"b", b"value", (), now_ms())], codec=codec)


def packed(codec: Codec, *records: bytes) -> bytes:
    """A batch whose header counts two records, with these records."""
    return with_body(good(codec), compress(codec, b"".join(records)))


def same_answers(codec: Codec) -> dict[str, tuple[bytes, ErrorCode]]:
    """The answers of a topic that keeps the producer's codec, the same for all codecs."""
    body = good(codec)[rb.RECORDS :]
    first, second = record(0), record(1)
    lost, unknown = ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
    return {
        "good": (good(codec), ErrorCode.NONE),
        "garbage": (with_body(good(codec), b"\x55" * 40), unknown),
        "cut": (with_body(good(codec), body[:-5]), unknown),
        "one missing": (packed(codec, first), lost),
        "none": (packed(codec), lost),
        "one too many": (packed(codec, first, second, record(2)), lost),
        "half a record": (packed(codec, first, second[:-2]), lost),
        "a size of five bytes": (
            packed(codec, first, padded(len(second) - 1, 5) + second[1:]),
            ErrorCode.NONE,
        ),
        "a size of six bytes": (
            packed(codec, first, padded(len(second) - 1, 6) + second[1:]),
            unknown if codec == Codec.NONE else lost,
        ),
        "a key size of six bytes": (packed(codec, padded_record({"key": 6}), second), lost),
        "a time of ten bytes": (packed(codec, padded_record({"timestamp": 10}), second), ErrorCode.NONE),
        "a time of eleven bytes": (packed(codec, padded_record({"timestamp": 11}), second), lost),
        "a record with a tail": (packed(codec, first, record(1, tail=b"xx")), lost),
        "bytes behind the records": (packed(codec, first, second, b"\0\0\0"), lost),
        "a gap": (packed(codec, first, record(5)), unknown),
        "from 1": (packed(codec, second, record(2)), unknown),
        "twice the same offset": (packed(codec, first, first), unknown),
        "an offset below": (packed(codec, first, record(-1)), unknown),
        "a size too small": (packed(codec, first, record(1, size=3)), ErrorCode.NONE),
        "a size too large": (packed(codec, first, record(1, size=60)), ErrorCode.NONE),
        "3 MB of zeros": (packed(codec, first, record(1, value=bytes(3_000_000))), ErrorCode.NONE),
        "a maximum that is none": (resealed(good(codec), rb.MAX_TIMESTAMP, ">q", 5), ErrorCode.NONE),
        "a far maximum": (resealed(good(codec), rb.MAX_TIMESTAMP, ">q", now_ms() + 10**9), ErrorCode.NONE),
    }


def others(codec: Codec) -> dict[str, bytes]:
    """Answers that depend on the codec's format, or on the topic."""
    whole, first, second = good(codec), record(0), record(1)
    body = whole[rb.RECORDS :]
    found = {
        "no body": with_body(whole, b""),
        "zeros behind the stream": with_body(whole, body + bytes(4)),
        "bytes behind the stream": with_body(whole, body + b"\x77" * 9),
        "two streams": with_body(whole, compress(codec, first) + compress(codec, second)),
        "no key": packed(codec, record(0, None), record(1, None)),
    }
    large = first + record(1, value=b"0123456789abcdef" * 10_000)
    if codec == Codec.LZ4:
        linked = lz4.frame.compress(large, block_linked=True)
        summed = lz4.frame.compress(large, block_linked=False, content_checksum=True, store_size=True)
        assert not linked[4] & LINKED
        found |= {"linked blocks": with_body(whole, linked), "checksum and size": with_body(whole, summed)}
    if codec == Codec.SNAPPY:
        found["raw"] = with_body(whole, bytes(cramjam.snappy.compress_raw(large)))
    return found
