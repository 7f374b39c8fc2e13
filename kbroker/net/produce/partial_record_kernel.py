"""Walk over the records of a batch as they come out of a decompressor, piece by piece.

Kafka: LogValidator over PartialDefaultRecord (keys and values are skipped, not kept) or DefaultRecord.readFrom. Nothing
of a record is held between two pieces but a varint that a piece cuts, so a small batch of huge records takes no memory.
"""

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import read_varint

# Words of a walk. Python sets those without a default before the first piece.
PR_PHASE = 0
PR_SKIP = 1  # bytes to pass over before the phase goes on
PR_LEFT = 2  # records not seen yet; set to the header's count
PR_OFFSET_DELTA = 3  # of the record that comes next
PR_HEADERS = 4  # of this record, not seen yet
PR_BASE_TIMESTAMP = 5  # set
PR_OLDEST = 6  # timestamps allowed beside -1, which is none; set
PR_NEWEST = 7  # set
PR_NEED_KEYS = 8  # set
PR_ORDERED = 9  # offset deltas must be 0, 1, 2, ...; set
PR_SIZED = 10  # a record must have the size it says; set
PR_LARGEST = 11  # timestamp; -1 when no record has one; set to -1
PR_REFUSED = 12  # a record has an error of its own: a timestamp out of range or no key
PR_ENDS = 13  # bytes of this record that are left by the size it says
PR_DISORDERED = 14  # offset deltas are others, and may be
PARTIAL_WORDS = 15

# Phases: what is read next. Attributes are skipped behind the size.
SIZE = 0
TIMESTAMP = 1
OFFSET = 2
KEY = 3
VALUE = 4
HEADER_COUNT = 5
HEADER_KEY = 6
HEADER_VALUE = 7

BROKEN = -1  # not the records that the header promises: INVALID_RECORD
DAMAGED = -2  # what Kafka has no error of its own for: UNKNOWN_SERVER_ERROR
MOST_VARINT = 10


@inlined
def _take_header(walk: int, phase: int, value: int) -> int:
    if phase == HEADER_COUNT:
        put(walk, PR_HEADERS, value)
        if value < 0:
            return BROKEN
    else:
        put(walk, PR_SKIP, max(value, 0))
        if phase == HEADER_KEY:
            return BROKEN if value < 0 else 0
        put(walk, PR_HEADERS, get(walk, PR_HEADERS) - 1)
    if get(walk, PR_HEADERS) > 0:
        put(walk, PR_PHASE, HEADER_KEY)
        return 0
    put(walk, PR_PHASE, SIZE)
    put(walk, PR_LEFT, get(walk, PR_LEFT) - 1)
    return BROKEN if get(walk, PR_SIZED) and get(walk, PR_ENDS) != get(walk, PR_SKIP) else 0


@inlined
def _take(walk: int, value: int) -> int:
    """The varint of a phase has been read; the next phase is set. 0, BROKEN or DAMAGED."""
    phase = get(walk, PR_PHASE)
    put(walk, PR_PHASE, phase + 1)
    if phase == SIZE:
        put(walk, PR_ENDS, value)
        put(walk, PR_SKIP, 1)
        return BROKEN if value < 1 and get(walk, PR_SIZED) else 0
    if phase == TIMESTAMP:
        timestamp = get(walk, PR_BASE_TIMESTAMP) + value
        put(walk, PR_LARGEST, max(timestamp, get(walk, PR_LARGEST)))
        if timestamp != -1 and (timestamp < get(walk, PR_OLDEST) or timestamp > get(walk, PR_NEWEST)):
            put(walk, PR_REFUSED, 1)
        return 0
    if phase == OFFSET:
        expected = get(walk, PR_OFFSET_DELTA)
        put(walk, PR_OFFSET_DELTA, expected + 1)
        if value == expected:
            return 0
        put(walk, PR_DISORDERED, 1)
        return DAMAGED if get(walk, PR_ORDERED) else 0
    if phase == KEY:
        if value < 0 and get(walk, PR_NEED_KEYS):
            put(walk, PR_REFUSED, 1)
        put(walk, PR_SKIP, max(value, 0))
        return 0
    if phase == VALUE:
        put(walk, PR_SKIP, max(value, 0))
        return 0
    return _take_header(walk, phase, value)


@inlined
def walk_on(walk: int, address: int, length: int) -> int:
    """Go on with a walk over the piece at an address: bytes taken (less than MOST_VARINT are left, for the front of
    the next piece), BROKEN or DAMAGED."""
    position = address
    end = address + length
    while position < end:
        skipped = min(get(walk, PR_SKIP), end - position)
        position += skipped
        put(walk, PR_SKIP, get(walk, PR_SKIP) - skipped)
        put(walk, PR_ENDS, get(walk, PR_ENDS) - skipped)
        if get(walk, PR_SKIP) != 0:
            break
        if get(walk, PR_PHASE) == SIZE and get(walk, PR_LEFT) == 0:
            return position - address if position == end else BROKEN
        value, behind = read_varint(position, end)
        if behind < 0:
            if position + MOST_VARINT <= end:
                return DAMAGED
            break
        put(walk, PR_ENDS, get(walk, PR_ENDS) - (behind - position))
        position = behind
        outcome = _take(walk, value)
        if outcome != 0:
            return outcome
    return position - address


@inlined
def at_end(walk: int) -> bool:
    """Whether all records have been seen, to their last byte."""
    return get(walk, PR_LEFT) == 0 and get(walk, PR_SKIP) == 0 and get(walk, PR_PHASE) == SIZE


@kernel("int64(int64, int64, int64)")
def walk_piece(walk: int, address: int, length: int) -> int:
    """`walk_on`, for Python."""
    return walk_on(walk, address, length)
