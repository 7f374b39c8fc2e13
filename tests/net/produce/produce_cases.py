"""Batches that a broker takes, and all the ways in which it refuses others."""

import struct

from kbroker.kernels.crc32c import crc32c
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from tests.net.requests import batch


def resealed(data: bytes, at: int, form: str, value: int) -> bytes:
    """A batch with one header field changed and its CRC made right again."""
    out = bytearray(data)
    struct.pack_into(form, out, at, value)
    struct.pack_into(">I", out, rb.CRC, crc32c(bytes(out[rb.ATTRIBUTES :])))
    return bytes(out)


GOOD = batch(count=2)
CASES = {
    "null records": (None, 7, ErrorCode.UNKNOWN_SERVER_ERROR),
    "no batch": (b"", 7, ErrorCode.INVALID_RECORD),
    "a partial batch": (GOOD[:-1], 7, ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, 7, ErrorCode.INVALID_RECORD),
    "trailing bytes shorter than a header": (GOOD + b"\0" * 11, 7, ErrorCode.NONE),
    "trailing bytes that are no batch": (GOOD + b"\0" * 30, 7, ErrorCode.CORRUPT_MESSAGE),
    "magic 1": (GOOD[:16] + b"\1" + GOOD[17:], 7, ErrorCode.INVALID_RECORD),
    "magic 3": (GOOD[:16] + b"\3" + GOOD[17:], 7, ErrorCode.CORRUPT_MESSAGE),
    "zstd before v7": (batch(codec=Codec.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "zstd from v7": (batch(codec=Codec.ZSTD), 7, ErrorCode.NONE),
    "bad CRC": (GOOD[:-1] + b"\1", 7, ErrorCode.CORRUPT_MESSAGE),
    "base offset": (resealed(GOOD, rb.BASE_OFFSET, ">q", 5), 7, ErrorCode.INVALID_RECORD),
    "count too large": (resealed(GOOD, rb.RECORD_COUNT, ">i", 3), 7, ErrorCode.INVALID_RECORD),
    "count zero": (resealed(GOOD, rb.RECORD_COUNT, ">i", 0), 7, ErrorCode.INVALID_RECORD),
    "last offset delta": (resealed(GOOD, rb.LAST_OFFSET_DELTA, ">i", 5), 7, ErrorCode.INVALID_RECORD),
    "control batch": (batch(control=True), 7, ErrorCode.INVALID_RECORD),
    "producer without sequence": (batch(producer=(1, 0, -1)), 7, ErrorCode.INVALID_RECORD),
    "idempotent": (batch(producer=(1, 0, 0)), 7, ErrorCode.NONE),
    "codec 7": (resealed(GOOD, rb.ATTRIBUTES, ">h", 7), 7, ErrorCode.UNKNOWN_SERVER_ERROR),
    "transactional without id": (
        batch(producer=(1, 0, 0), transactional=True), 7, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "records that are not there": (
        resealed(resealed(GOOD, rb.RECORD_COUNT, ">i", 9), rb.LAST_OFFSET_DELTA, ">i", 8), 7, ErrorCode.INVALID_RECORD,
    ),
    "records left over": (
        resealed(resealed(GOOD, rb.RECORD_COUNT, ">i", 1), rb.LAST_OFFSET_DELTA, ">i", 0), 7, ErrorCode.INVALID_RECORD,
    ),
}  # fmt: skip
