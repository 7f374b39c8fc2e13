"""Headers of a record, as the judge's reader finds them: where they end, and the identity of a
tombstone in the first one. No Spark."""

import numpy as np
import pytest

from loadtest.record import IDENTITY_HEADER, header_bytes, varint
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.identities import in_header

SOME = header_bytes([("a", b"1"), ("b", None), ("", b"")])
IDENTITY = header_bytes([(IDENTITY_HEADER, b"x" * 40)])
BEGIN = len(IDENTITY) - 40


@pytest.mark.parametrize(
    ("headers", "end"),
    [
        (header_bytes([]), 1),
        (header_bytes([]) + b"x", 1),
        (SOME, len(SOME)),
        (SOME[:-1], -1),
        (SOME[:-3], -1),
        (b"", -1),
        (varint(1), -1),
        (varint(-1), -1),
        (varint(1) + varint(-1) + varint(0), -1),
        (varint(1) + varint(0) + varint(-2), -1),
        (varint(1) + varint(0) + varint(1), -1),
        (b"\xff" * 12, -1),
    ],
    ids=str,
)
def test_headers_end_with_their_record_or_cannot_be_read(headers: bytes, end: int) -> None:
    data = np.frombuffer(b"\0" + headers + b"\0" * 8, np.uint8)
    assert rk.headers_end(data, 1, 1 + len(headers)) == (end if end < 0 else 1 + end)


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        (IDENTITY, (BEGIN, 40)),
        (IDENTITY[:-1], (0, -1)),
        (IDENTITY[:4], (0, -1)),
        (IDENTITY[:1], (0, -1)),
        (header_bytes([("other", b"x" * 40)]), (0, -1)),
        (header_bytes([]), (0, -1)),
    ],
    ids=str,
)
def test_an_identity_lies_within_the_headers(headers: bytes, found: tuple[int, int]) -> None:
    assert in_header(memoryview(headers), 0) == found
