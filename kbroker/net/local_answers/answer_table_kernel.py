"""Tables of cached answers, or of parts of them, keyed by the request: rows, an index, and one pool
of bytes.

A row's key and content are adjacent in the pool. Rows are not freed one by one: when rows or pool
are full, the whole table is cleared.
"""

from kbroker.kernels.hash_index import enter, next_row
from kbroker.kernels.jit import inlined
from kbroker.kernels.keyed_hash import hash64
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import copy, store_i64
from kbroker.kernels.padding import padded
from kbroker.kernels.rows import get, put
from kbroker.net.rows import Answer, AnswerTable

NO_KIND = -1  # of a row that is not in use any more


@inlined
def row_number(table: int, row: int) -> int:
    """Number of a row, given its address."""
    return (row - get(table, AnswerTable.ROWS)) // (Answer.STRIDE)


@inlined
def _hash(table: int, kind: int, key: int, length: int) -> int:
    """Clients choose the key."""
    return hash64(key, length, get(table, AnswerTable.HASH_KEY) ^ kind)


@inlined
def _find(table: int, kind: int, key_hash: int, key: int, length: int) -> int:
    index, mask = get(table, AnswerTable.INDEX), get(table, AnswerTable.INDEX_ENTRIES) - 1
    number, at = next_row(index, mask, key_hash)
    while number >= 0:
        row = get(table, AnswerTable.ROWS) + number * Answer.STRIDE
        if (
            get(row, Answer.HASH) == key_hash
            and get(row, Answer.KIND) == kind
            and get(row, Answer.BODY_BYTES) == length
            and memcmp(get(row, Answer.BODY), key, length) == 0
        ):
            return row
        number, at = next_row(index, mask, at)
    return 0


@inlined
def find_cached(table: int, kind: int, key: int, length: int) -> int:
    """Address of the row of this key, 0 when there is none."""
    return _find(table, kind, _hash(table, kind, key, length), key, length)


@inlined
def forget_cached(table: int) -> None:
    """Forget all rows."""
    put(table, AnswerTable.COUNT, 0)
    put(table, AnswerTable.POOL_USED, 0)
    for at in range(get(table, AnswerTable.INDEX_ENTRIES)):
        store_i64(get(table, AnswerTable.INDEX) + 8 * at, 0)


@inlined
def row_for(table: int, kind: int, key: int, length: int, room: int) -> int:
    """The row of this key, with room for so much content; 0 when it has to be a new one and the
    table is full."""
    hashed = _hash(table, kind, key, length)
    row = _find(table, kind, hashed, key, length)
    if row != 0 and get(row, Answer.ROOM) >= room:
        return row
    room = padded(room)
    need = padded(length) + room
    number = get(table, AnswerTable.COUNT)
    if number == get(table, AnswerTable.CAPACITY) or get(table, AnswerTable.POOL_USED) + need > get(
        table, AnswerTable.POOL_BYTES
    ):
        return 0
    if row != 0:
        put(row, Answer.KIND, NO_KIND)
    place = get(table, AnswerTable.POOL) + get(table, AnswerTable.POOL_USED)
    put(table, AnswerTable.COUNT, number + 1)
    put(table, AnswerTable.POOL_USED, get(table, AnswerTable.POOL_USED) + need)
    enter(get(table, AnswerTable.INDEX), get(table, AnswerTable.INDEX_ENTRIES) - 1, hashed, number)
    row = get(table, AnswerTable.ROWS) + number * Answer.STRIDE
    put(row, Answer.HASH, hashed)
    put(row, Answer.KIND, kind)
    put(row, Answer.BODY, place)
    put(row, Answer.BODY_BYTES, length)
    put(row, Answer.ANSWER, place + need - room)
    put(row, Answer.ROOM, room)
    copy(place, key, length)
    return row
