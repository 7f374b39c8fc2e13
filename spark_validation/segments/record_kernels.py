"""Loops over records that numpy has no words for: their fields, and their bytes gathered. Compiled
by numba alone.

Nothing here is the broker's: neither its kernels nor its door to numba. Buffers are arrays, places
are indexes into them, and every place is checked against its record's end before it is used.
"""
# mypy: disable-error-code="no-untyped-call,untyped-decorator"

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# columns of a decoded record
OFFSET = 0
TIMESTAMP = 1  # ms
BATCH = 2  # row of its batch
KEY_AT = 3  # index into the buffer
KEY_SIZE = 4  # -1: null
VALUE_AT = 5
VALUE_SIZE = 6
HEADERS_AT = 7  # of their count
HEADERS_SIZE = 8
RECORD_COLUMNS = 9

# columns of a batch to decode
ROW = 0
START = 1  # of its records
END = 2
COUNT = 3
FIRST_OFFSET = 4
LAST_OFFSET = 5
FIRST_TIMESTAMP = 6
APPEND_TIME = 7  # of all its records; -1: each has its own
# what came out
DECODED = 8
HIGHEST_TIMESTAMP = 9
MALFORMED = 10  # 1: a record is not readable, or more or fewer than COUNT are there
MISNUMBERED = 11  # 1: offsets do not rise, or one lies outside of the batch
MARKED = 12  # 1: the attributes of a record are not 0
WORK_COLUMNS = 13

CACHED = {"cache": True, "nogil": True}
DATA = types.Array(types.uint8, 1, "C", readonly=True)  # taken, too, where it could be written
BYTES, TABLE = types.uint8[::1], types.int64[:, ::1]
NUMBERS, ENDS, INT = types.int64[::1], types.int32[::1], types.int64


@njit(types.UniTuple(INT, 2)(DATA, INT, INT), **CACHED)
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint; the position is -1 when it does not end before
    `end`."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end and shift < 64:
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at  # type: ignore[return-value]
        shift += np.uint64(7)
    return 0, -1


@njit(INT(DATA, INT, INT), **CACHED)
def headers_end(data: Bytes, at: int, stop: int) -> int:
    """Position after the headers that begin with their count at `at`; -1 when they are not readable
    before `stop`."""
    count, at = varint(data, at, stop)
    if at < 0 or count < 0:
        return -1
    for _ in range(count):
        size, at = varint(data, at, stop)
        if at < 0 or size < 0 or size > stop - at:
            return -1
        at += size
        size, at = varint(data, at, stop)
        if at < 0 or size < -1 or size > stop - at:
            return -1
        at += max(size, 0)
    return at


@njit(INT(DATA, TABLE, TABLE), **CACHED)
def decode(data: Bytes, work: Words, out: Words) -> int:
    """Fill rows of `out` (RECORD_COLUMNS) with the records of batches (rows of WORK_COLUMNS);
    returns how many.

    Records after a malformed one of their batch are left out. `out` has room for all COUNTs.
    """
    made = 0
    for n in range(work.shape[0]):
        at, end = work[n, START], work[n, END]
        before = work[n, FIRST_OFFSET] - 1
        highest = np.int64(-1)
        begun = made
        work[n, MALFORMED] = 0
        work[n, MISNUMBERED] = 0
        work[n, MARKED] = 0
        for _ in range(work[n, COUNT]):
            size, at = varint(data, at, end)
            if at < 0 or size < 1 or size > end - at:
                break
            stop = at + size
            if data[at] != 0:
                work[n, MARKED] = 1
            time_delta, at = varint(data, at + 1, stop)
            if at < 0:
                break
            offset_delta, at = varint(data, at, stop)
            if at < 0:
                break
            key_size, at = varint(data, at, stop)
            if at < 0 or key_size < -1 or key_size > stop - at:
                break
            key_at = at
            at += max(key_size, 0)
            value_size, at = varint(data, at, stop)
            if at < 0 or value_size < -1 or value_size > stop - at:
                break
            value_at = at
            at += max(value_size, 0)
            offset = work[n, FIRST_OFFSET] + offset_delta
            if offset <= before or offset > work[n, LAST_OFFSET]:
                work[n, MISNUMBERED] = 1
            before = offset
            timestamp = work[n, FIRST_TIMESTAMP] + time_delta
            highest = max(highest, timestamp)
            out[made, OFFSET] = offset
            out[made, TIMESTAMP] = timestamp if work[n, APPEND_TIME] < 0 else work[n, APPEND_TIME]
            out[made, BATCH] = work[n, ROW]
            out[made, KEY_AT] = key_at
            out[made, KEY_SIZE] = key_size
            out[made, VALUE_AT] = value_at
            out[made, VALUE_SIZE] = value_size
            out[made, HEADERS_AT] = at
            out[made, HEADERS_SIZE] = stop - at
            if headers_end(data, at, stop) != stop:
                work[n, MALFORMED] = 1  # its readers would fail, or stop before its end
            made += 1
            at = stop
        work[n, DECODED] = made - begun
        work[n, HIGHEST_TIMESTAMP] = highest
        if at != end or made - begun != work[n, COUNT]:
            work[n, MALFORMED] = 1
    return made


@njit(INT(DATA, TABLE, INT, INT, INT, ENDS, BYTES, BYTES), **CACHED)
def gather(
    data: Bytes,
    found: Words,
    column: int,
    start: int,
    stop: int,
    ends: NDArray[np.int32],
    valid: Bytes,
    out: Bytes,
) -> int:
    """Append keys or values of records [start, stop), as Arrow wants a binary column; returns
    nulls.

    column: KEY_AT or VALUE_AT; ends: ends[start] is where the bytes go on, further ones are filled
    in; valid: bitmap, zeros from start on; out: room for all bytes.
    """
    at = np.int64(ends[start])
    nulls = 0
    for n in range(start, stop):
        size = found[n, column + 1]
        if size < 0:
            nulls += 1
        else:
            begin = found[n, column]
            for k in range(size):
                out[at + k] = data[begin + k]
            at += size
            valid[n >> 3] |= np.uint8(1 << (n & 7))
        ends[n + 1] = at
    return nulls


@njit(types.void(DATA, NUMBERS, NUMBERS, types.uint8[:, ::1]), **CACHED)
def starts(data: Bytes, at: Words, sizes: Words, out: Bytes) -> None:
    """The first bytes of texts, a row each of the width of `out`; zeros where a text is shorter
    than that."""
    width = out.shape[1]
    for n in range(len(at)):
        if sizes[n] < width:
            for k in range(width):
                out[n, k] = 0
        else:
            begin = at[n]
            for k in range(width):
                out[n, k] = data[begin + k]


@njit(types.void(DATA, NUMBERS, NUMBERS, NUMBERS), **CACHED)
def key_numbers(data: Bytes, at: Words, sizes: Words, out: Words) -> None:
    """The number in each key: "k" and seven digits; -1 for other keys."""
    for n in range(len(at)):
        out[n] = -1
        if sizes[n] != 8 or data[at[n]] != 0x6B:
            continue
        number = np.int64(0)
        for k in range(1, 8):
            digit = np.int64(data[at[n] + k]) - np.int64(0x30)
            if digit < 0 or digit > 9:
                number = np.int64(-1)
                break
            number = number * np.int64(10) + digit
        out[n] = number
