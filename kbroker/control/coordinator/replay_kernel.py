"""The records of a window of a coordinator's log, and which of them have an effect.

Records of one key form a chain, as long as no other record separates them: then the last valid one
has the effect of all, and the others need not be decoded. It is replayed in the place of the first.
A tombstone, a record of a type that is not in ReplayWindow.TYPES and a record of a transaction
separate the records of their group: the machine may read what earlier ones have left. The end of a
transaction separates nothing: its offsets count if they were committed after the plain ones, and
they are before or after a whole chain.
"""
# mypy: disable-error-code="no-untyped-call"

from kbroker.control.coordinator.replay_layout import (
    ReplayGroups,
    ReplayKind,
    ReplayRow,
    ReplayStop,
    ReplayWindow,
)
from kbroker.kernels.batch_header import batch_bytes, last_offset
from kbroker.kernels.hash_index import enter, next_row
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash128
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import (
    load_i8,
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    store_i64,
    wrapped,
)
from kbroker.kernels.rows import get, put
from kbroker.kernels.wire import BAD, read_varint, read_varint32
from kbroker.protocol import batch_layout as b

GROUP = 4  # bytes of a key before its first text: record type and length
SPECIAL = b.ATTRIBUTE_CODEC_MASK | b.ATTRIBUTE_CONTROL
NO_ROW = -1


@inlined
def _row(window: int, number: int) -> int:
    return get(window, ReplayWindow.ROWS) + number * ReplayRow.STRIDE


@inlined
def _read_record(window: int, row: int, batch: int, position: int, end: int) -> int:
    """Fill a row from the record at a position; the position after the record, BAD for one that
    Python has to decode: damaged, without a key or with headers."""
    size, position = read_varint32(position, end)
    if position == BAD or size < 1 or size > end - position:
        return BAD
    end = position + size
    time_delta, position = read_varint(position + 1, end)  # after the attributes
    if position == BAD:
        return BAD
    offset_delta, position = read_varint32(position, end)
    if position == BAD:
        return BAD
    key_bytes, key = read_varint32(position, end)
    if key == BAD or key_bytes < 0 or key_bytes > end - key:
        return BAD
    value_bytes, value = read_varint32(key + key_bytes, end)
    if value == BAD or value_bytes > end - value:
        return BAD
    value_bytes = max(value_bytes, -1)
    headers, position = read_varint32(value + max(value_bytes, 0), end)
    if headers != 0 or position != end:
        return BAD
    attributes = load_i16_be(batch + b.ATTRIBUTES)
    timestamp = load_i64_be(batch + b.MAX_TIMESTAMP)
    if not attributes & b.ATTRIBUTE_LOG_APPEND_TIME:
        timestamp = wrapped(load_i64_be(batch + b.BASE_TIMESTAMP) + time_delta)
    buffer = get(window, ReplayWindow.BUFFER)
    transactional = attributes & b.ATTRIBUTE_TRANSACTIONAL
    put(row, ReplayRow.KIND, ReplayKind.TRANSACTIONAL if transactional else ReplayKind.RECORD)
    put(row, ReplayRow.POSITION, key - buffer)
    put(row, ReplayRow.BYTES, key_bytes)
    put(row, ReplayRow.VALUE, value - buffer)
    put(row, ReplayRow.VALUE_BYTES, value_bytes)
    put(row, ReplayRow.TIMESTAMP, timestamp)
    put(row, ReplayRow.OFFSET, wrapped(load_i64_be(batch + b.BASE_OFFSET) + offset_delta))
    put(row, ReplayRow.PRODUCER_ID, load_i64_be(batch + b.PRODUCER_ID))
    return position


@inlined
def _read_records(window: int, batch: int, size: int, count: int, first: int) -> bool:
    """Fill the rows from number `first` on with the records of a batch; False when Python has to
    decode it."""
    if load_i16_be(batch + b.ATTRIBUTES) & SPECIAL:
        return False
    position = batch + b.RECORDS
    end = batch + size
    for number in range(first, first + count):
        position = _read_record(window, _row(window, number), batch, position, end)
        if position == BAD:
            return False
    return count >= 0 and position == end


@inlined
def _first_of_key(window: int, number: int) -> int:
    """The first row of the window with the key of this row, which is entered if it is the first."""
    row = _row(window, number)
    buffer = get(window, ReplayWindow.BUFFER)
    key = buffer + get(row, ReplayRow.POSITION)
    length = get(row, ReplayRow.BYTES)
    hashed, _ = hash128(key, length, get(window, ReplayWindow.SEED))
    put(row, ReplayRow.HASH, hashed)
    index = get(window, ReplayWindow.INDEX)
    mask = get(window, ReplayWindow.MASK)
    found, at = next_row(index, mask, hashed)
    while found >= 0:
        other = _row(window, found)
        if (
            get(other, ReplayRow.HASH) == hashed
            and get(other, ReplayRow.BYTES) == length
            and memcmp(buffer + get(other, ReplayRow.POSITION), key, length) == 0
        ):
            return found
        found, at = next_row(index, mask, at)
    enter(index, mask, hashed, number)
    put(row, ReplayRow.CHAIN, number)
    return number


@inlined
def _group(window: int, row: int) -> int:
    """The place of the group of a record, the first text of its key; -1 without one."""
    key = get(window, ReplayWindow.BUFFER) + get(row, ReplayRow.POSITION)
    length = get(row, ReplayRow.BYTES)
    if length < GROUP:
        return NO_ROW
    size = load_i16_be(key + 2)
    if size < 0 or size > length - GROUP:
        return NO_ROW
    hashed, _ = hash128(key + GROUP, size, get(window, ReplayWindow.SEED))
    return hashed & (ReplayGroups.PLACES - 1)


@inlined
def _may_chain(window: int, row: int) -> bool:
    """Whether a record may be in a chain: of such a type, with a value, not of a transaction."""
    if get(row, ReplayRow.VALUE_BYTES) < 0 or get(row, ReplayRow.KIND) == ReplayKind.TRANSACTIONAL:
        return False
    kind = load_i16_be(get(window, ReplayWindow.BUFFER) + get(row, ReplayRow.POSITION))
    return kind >= 0 and kind < 63 and (get(window, ReplayWindow.TYPES) >> kind) & 1 != 0


@inlined
def _link(window: int, number: int) -> None:
    """Put the record of a row into the chain of its key, or let it separate chains."""
    row = _row(window, number)
    put(row, ReplayRow.LAST, number)
    put(row, ReplayRow.PREVIOUS, NO_ROW)
    group = _group(window, row)
    if group < 0:
        put(window, ReplayWindow.BARRIER, number + 1)
        return
    barrier = get(window, ReplayWindow.BARRIERS) + 8 * group
    if not _may_chain(window, row):
        store_i64(barrier, number + 1)
        return
    entered = _row(window, _first_of_key(window, number))
    first = get(entered, ReplayRow.CHAIN)
    if first == number:
        return
    if first < max(load_i64(barrier), get(window, ReplayWindow.BARRIER)):
        put(entered, ReplayRow.CHAIN, number)
        return
    put(row, ReplayRow.PREVIOUS, get(_row(window, first), ReplayRow.LAST))
    put(_row(window, first), ReplayRow.LAST, number)


@inlined
def _leave_to_python(window: int, batch: int, size: int, number: int) -> None:
    """Make a row of a batch."""
    row = _row(window, number)
    put(row, ReplayRow.KIND, ReplayKind.BATCH)
    put(row, ReplayRow.POSITION, batch - get(window, ReplayWindow.BUFFER))
    put(row, ReplayRow.BYTES, size)
    put(row, ReplayRow.LAST, number)
    put(row, ReplayRow.PREVIOUS, NO_ROW)
    if not load_i16_be(batch + b.ATTRIBUTES) & b.ATTRIBUTE_CONTROL:
        put(window, ReplayWindow.BARRIER, number + 1)


@inlined
def _take(window: int, batch: int, size: int) -> bool:
    """Make rows of a batch; False when there are too few left."""
    first = get(window, ReplayWindow.COUNT)
    room = get(window, ReplayWindow.ROOM) - first
    count = load_i32_be(batch + b.RECORD_COUNT)
    if room < 1 or (count > room and first > 0):
        return False
    if count <= room and _read_records(window, batch, size, count, first):
        for number in range(first, first + count):
            _link(window, number)
        put(window, ReplayWindow.COUNT, first + count)
    else:
        _leave_to_python(window, batch, size, first)
        put(window, ReplayWindow.COUNT, first + 1)
    return True


@kernel("int64(int64)")
def read_window(window: int) -> int:
    """Make rows of the batches of a window from POSITION on; the ReplayStop."""
    buffer = get(window, ReplayWindow.BUFFER)
    end = buffer + get(window, ReplayWindow.END)
    batch = buffer + get(window, ReplayWindow.POSITION)
    stop = ReplayStop.SHORT
    while end - batch >= b.HEADER_BYTES:
        size = batch_bytes(batch)
        if size > end - batch:
            break
        if size < b.HEADER_BYTES or load_i8(batch + b.MAGIC) != b.MAGIC_V2:
            stop = ReplayStop.ODD
            break
        last = wrapped(last_offset(batch))
        if last >= get(window, ReplayWindow.NEXT_OFFSET):
            if not _take(window, batch, size):
                stop = ReplayStop.FULL
                break
            put(window, ReplayWindow.NEXT_OFFSET, last + 1)
        batch += size
    put(window, ReplayWindow.POSITION, batch - buffer)
    return stop
