"""Tables of answers, or of parts of them, by what was asked: rows, an index, and one pool of bytes.

A row's key and content lie behind one another in the pool. Rows are not given back one by one: when rows or pool are
full, all are forgotten at once.
"""

from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import copy, load_i64, store_i64
from kbroker.kernels.rows import get, put
from kbroker.net.rows.answer_layout import (
    AN_ANSWER,
    AN_BODY,
    AN_BODY_BYTES,
    AN_HASH,
    AN_KIND,
    AN_ROOM,
    ANSWER_WORDS,
    TB_COUNT,
    TB_INDEX,
    TB_INDEX_ENTRIES,
    TB_MOST,
    TB_POOL,
    TB_POOL_BYTES,
    TB_POOL_USED,
    TB_ROWS,
)

NOBODYS = -1  # kind of a row that nobody finds any more


@inlined
def row_number(table: int, row: int) -> int:
    """Number of a row, given its address."""
    return (row - get(table, TB_ROWS)) // (8 * ANSWER_WORDS)


@inlined
def _hash(kind: int, key: int, length: int) -> int:
    return crc32c_at(key, length) ^ (kind & 0xFFFF) ^ ((kind >> 16) * 0x9E3779B1 & 0xFFFFFFFF)


@inlined
def _find(table: int, kind: int, wanted: int, key: int, length: int) -> int:
    mask = get(table, TB_INDEX_ENTRIES) - 1
    at = wanted & mask
    while True:
        number = load_i64(get(table, TB_INDEX) + 8 * at) - 1
        if number < 0:
            return 0
        row = get(table, TB_ROWS) + number * ANSWER_WORDS * 8
        if (
            get(row, AN_HASH) == wanted
            and get(row, AN_KIND) == kind
            and get(row, AN_BODY_BYTES) == length
            and memcmp(get(row, AN_BODY), key, length) == 0
        ):
            return row
        at = (at + 1) & mask


@inlined
def find_kept(table: int, kind: int, key: int, length: int) -> int:
    """Address of the row of this key, 0 when there is none."""
    return _find(table, kind, _hash(kind, key, length), key, length)


@inlined
def forget_kept(table: int) -> None:
    """Forget all rows."""
    put(table, TB_COUNT, 0)
    put(table, TB_POOL_USED, 0)
    for at in range(get(table, TB_INDEX_ENTRIES)):
        store_i64(get(table, TB_INDEX) + 8 * at, 0)


@inlined
def row_for(table: int, kind: int, key: int, length: int, room: int) -> int:
    """The row of this key, with room for so much content; 0 when a new one is wanted and the table is full."""
    hashed = _hash(kind, key, length)
    row = _find(table, kind, hashed, key, length)
    if row != 0 and get(row, AN_ROOM) >= room:
        return row
    room = (room + 7) & ~7
    need = ((length + 7) & ~7) + room
    number = get(table, TB_COUNT)
    if number == get(table, TB_MOST) or get(table, TB_POOL_USED) + need > get(table, TB_POOL_BYTES):
        return 0
    if row != 0:
        put(row, AN_KIND, NOBODYS)
    place = get(table, TB_POOL) + get(table, TB_POOL_USED)
    put(table, TB_COUNT, number + 1)
    put(table, TB_POOL_USED, get(table, TB_POOL_USED) + need)
    mask = get(table, TB_INDEX_ENTRIES) - 1
    at = hashed & mask
    while load_i64(get(table, TB_INDEX) + 8 * at) != 0:
        at = (at + 1) & mask
    store_i64(get(table, TB_INDEX) + 8 * at, number + 1)
    row = get(table, TB_ROWS) + number * ANSWER_WORDS * 8
    put(row, AN_HASH, hashed)
    put(row, AN_KIND, kind)
    put(row, AN_BODY, place)
    put(row, AN_BODY_BYTES, length)
    put(row, AN_ANSWER, place + need - room)
    put(row, AN_ROOM, room)
    copy(place, key, length)
    return row
