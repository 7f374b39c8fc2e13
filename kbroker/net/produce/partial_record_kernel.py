"""Walks over the records of a batch as they come out of a decompressor, piece by piece.

Kafka: LogValidator over PartialDefaultRecord (keys and values are skipped, not kept) or
DefaultRecord.readFrom. Between two pieces only a varint that is cut in two is kept, so a small
batch of huge records takes no memory.
"""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_varint, read_varint32
from kbroker.net.rows import PartialRecord, RecordPhase

# Words of a walk. Python sets those without a default before the first piece.

# Phases: what is read next. Attributes are skipped after the size.

BROKEN = -1  # not the records that the header promises: INVALID_RECORD
DAMAGED = -2  # damage without an error code of Kafka's: UNKNOWN_SERVER_ERROR
MAX_VARINT = 10
MAX_VARINT32 = 5


@inlined
def _take_header(walk: int, phase: int, value: int) -> int:
    if phase == RecordPhase.HEADER_COUNT:
        put(walk, PartialRecord.HEADERS, value)
        if value < 0:
            return BROKEN
    else:
        put(walk, PartialRecord.SKIP, max(value, 0))
        if phase == RecordPhase.HEADER_KEY:
            return BROKEN if value < 0 else 0
        put(walk, PartialRecord.HEADERS, get(walk, PartialRecord.HEADERS) - 1)
    if get(walk, PartialRecord.HEADERS) > 0:
        put(walk, PartialRecord.PHASE, RecordPhase.HEADER_KEY)
        return 0
    put(walk, PartialRecord.PHASE, RecordPhase.SIZE)
    put(walk, PartialRecord.LEFT, get(walk, PartialRecord.LEFT) - 1)
    return (
        BROKEN
        if get(walk, PartialRecord.SIZED) and get(walk, PartialRecord.ENDS) != get(walk, PartialRecord.SKIP)
        else 0
    )


@inlined
def _take(walk: int, value: int) -> int:
    """The varint of a phase has been read; the next phase is set. 0, BROKEN or DAMAGED."""
    phase = get(walk, PartialRecord.PHASE)
    put(walk, PartialRecord.PHASE, phase + 1)
    if phase == RecordPhase.SIZE:
        put(walk, PartialRecord.ENDS, value)
        put(walk, PartialRecord.SKIP, 1)
        return BROKEN if value < 1 and get(walk, PartialRecord.SIZED) else 0
    if phase == RecordPhase.TIMESTAMP:
        timestamp = get(walk, PartialRecord.BASE_TIMESTAMP) + value
        put(walk, PartialRecord.LARGEST, max(timestamp, get(walk, PartialRecord.LARGEST)))
        if timestamp != -1 and (
            timestamp < get(walk, PartialRecord.OLDEST) or timestamp > get(walk, PartialRecord.NEWEST)
        ):
            put(walk, PartialRecord.REFUSED, 1)
        return 0
    if phase == RecordPhase.OFFSET:
        expected = get(walk, PartialRecord.OFFSET_DELTA)
        put(walk, PartialRecord.OFFSET_DELTA, expected + 1)
        if value == expected:
            return 0
        put(walk, PartialRecord.DISORDERED, 1)
        return DAMAGED if get(walk, PartialRecord.ORDERED) else 0
    if phase == RecordPhase.KEY:
        if value < 0 and get(walk, PartialRecord.NEED_KEYS):
            put(walk, PartialRecord.REFUSED, 1)
        put(walk, PartialRecord.SKIP, max(value, 0))
        return 0
    if phase == RecordPhase.VALUE:
        put(walk, PartialRecord.SKIP, max(value, 0))
        return 0
    return _take_header(walk, phase, value)


@inlined
def continue_walk(walk: int, address: int, length: int) -> int:
    """Continue a walk over the piece at an address; returns the bytes taken (fewer than MAX_VARINT
    are left, for the front of the next piece), BROKEN or DAMAGED."""
    position = address
    end = address + length
    while position < end:
        skipped = min(get(walk, PartialRecord.SKIP), end - position)
        position += skipped
        put(walk, PartialRecord.SKIP, get(walk, PartialRecord.SKIP) - skipped)
        put(walk, PartialRecord.ENDS, get(walk, PartialRecord.ENDS) - skipped)
        if get(walk, PartialRecord.SKIP) != 0:
            break
        if get(walk, PartialRecord.PHASE) == RecordPhase.SIZE and get(walk, PartialRecord.LEFT) == 0:
            return position - address if position == end else BROKEN
        if get(walk, PartialRecord.PHASE) == RecordPhase.TIMESTAMP:
            longest = MAX_VARINT
            value, after = read_varint(position, end)
        else:
            longest = MAX_VARINT32
            value, after = read_varint32(position, end)
        if after < 0:
            if position + longest > end:
                break
            return BROKEN
        put(walk, PartialRecord.ENDS, get(walk, PartialRecord.ENDS) - (after - position))
        position = after
        outcome = _take(walk, value)
        if outcome != 0:
            return outcome
    return position - address


@inlined
def at_end(walk: int) -> bool:
    """Whether all records have been seen, to their last byte."""
    return (
        get(walk, PartialRecord.LEFT) == 0
        and get(walk, PartialRecord.SKIP) == 0
        and get(walk, PartialRecord.PHASE) == RecordPhase.SIZE
    )


@kernel("int64(int64, int64, int64)")
def walk_piece(walk: int, address: int, length: int) -> int:
    """`continue_walk`, for Python."""
    return continue_walk(walk, address, length)
