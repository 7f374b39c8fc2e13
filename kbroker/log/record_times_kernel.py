"""The first record of a batch at or after a time, as its records come out of a decompressor, piece
by piece: a batch of a megabyte may hold a hundred million records, or one of a gigabyte."""

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import wrapped
from kbroker.kernels.scan_rows import RecordSearch
from kbroker.kernels.wire import BAD, read_varint, read_varint32

Words = NDArray[np.int64]


RECORD_HEAD_BYTES = 21
"""The longest head of a record: size, attributes, timestamp, offset."""


@inlined
def _read_head(search: Words, position: int, end: int) -> int:
    """Read the head of a record, and set how much of the record follows it; the position after it,
    BAD if it is none."""
    size, start = read_varint32(position, end)
    if start < 0 or start >= end:
        return BAD
    time_delta, position = read_varint(start + 1, end)
    if position < 0:
        return BAD
    offset_delta, position = read_varint32(position, end)
    if position < 0 or size < position - start:
        return BAD
    search[RecordSearch.SKIP] = size - (position - start)
    search[RecordSearch.LEFT] -= 1
    timestamp = wrapped(search[RecordSearch.BASE_TIMESTAMP] + time_delta)
    if timestamp >= search[RecordSearch.MIN_TIMESTAMP] and offset_delta >= search[RecordSearch.MIN_DELTA]:
        search[RecordSearch.FOUND] = 1
        search[RecordSearch.TIMESTAMP] = timestamp
        search[RecordSearch.OFFSET_DELTA] = offset_delta
    return position


@kernel("int64(int64[::1], int64, int64, boolean)")
def search_piece(search: Words, address: int, length: int, last: bool) -> int:
    """Continue a search in the piece at an address; the bytes taken: fewer than RECORD_HEAD_BYTES
    are left for the front of the next piece. BAD if they are no records."""
    position = address
    end = address + length
    while search[RecordSearch.FOUND] == 0:
        skipped = min(search[RecordSearch.SKIP], end - position)
        position += skipped
        search[RecordSearch.SKIP] -= skipped
        if search[RecordSearch.SKIP] > 0 or search[RecordSearch.LEFT] <= 0:
            break
        if end - position < RECORD_HEAD_BYTES and not last:
            break
        position = _read_head(search, position, end)
        if position < 0:
            return BAD
    return position - address
