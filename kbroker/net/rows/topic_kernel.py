"""Topics and partitions as kernels see them: the look-up by name or id, what a client may do with a
topic, and a partition's slot.

What a client may do is one byte per principal and topic, which Python has computed. A slot is read
as one consistent group.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot
from kbroker.kernels.hash_index import next_row
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.keyed_hash import hash64
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import fence, fetch_or, load_acquire, load_i64, load_u8, store_i64
from kbroker.kernels.rows import get
from kbroker.net.rows import Access, Connection, Context, Grant, Topic

UNDECIDED = -1
TRIES = 10_000  # some 20 µs; a writer that died within its group would leave the counter odd


@inlined
def name_hash(cx: int, address: int, length: int) -> int:
    """Hash of a topic name's bytes, which clients choose."""
    return hash64(address, length, get(cx, Context.NAME_KEY))


@inlined
def id_hash(high: int, low: int) -> int:
    """Hash of a topic id's two words: ids are random already."""
    return high ^ low


@inlined
def topic_by_name(cx: int, address: int, length: int) -> int:
    """Address of the topic's row, 0 when there is none."""
    index, mask = get(cx, Context.NAME_INDEX), get(cx, Context.INDEX_MASK)
    number, at = next_row(index, mask, name_hash(cx, address, length))
    while number >= 0:
        row = get(cx, Context.TOPICS) + number * Topic.STRIDE
        if get(row, Topic.NAME_LENGTH) == length and memcmp(get(row, Topic.NAME), address, length) == 0:
            return row
        number, at = next_row(index, mask, at)
    return 0


@inlined
def topic_by_id(cx: int, address: int) -> int:
    """Address of the row of the topic whose id's 16 bytes are at an address, 0 when there is
    none."""
    high = load_i64(address)
    low = load_i64(address + 8)
    index, mask = get(cx, Context.ID_INDEX), get(cx, Context.INDEX_MASK)
    number, at = next_row(index, mask, id_hash(high, low))
    while number >= 0:
        row = get(cx, Context.TOPICS) + number * Topic.STRIDE
        if get(row, Topic.ID_HIGH) == high and get(row, Topic.ID_LOW) == low:
            return row
        number, at = next_row(index, mask, at)
    return 0


@inlined
def may_use(cx: int, row: int, topic: int, bit: int) -> bool:
    """Whether the connection of a row may read, write or describe (a MAY bit) the topic of a topic
    row."""
    access = get(row, Connection.ACCESS)
    if access == 0:
        return True
    number = (topic - get(cx, Context.TOPICS)) // (Topic.STRIDE)
    return load_u8(get(get(access, Access.GRANT), Grant.TOPICS) + number) & bit != 0


@inlined
def may_take_producer_id(row: int) -> bool:
    """Whether the connection of a row may write with idempotence."""
    access = get(row, Connection.ACCESS)
    return access == 0 or get(get(access, Access.GRANT), Grant.PRODUCER_IDS) != 0


@inlined
def may_use_id(row: int, name: int, length: int) -> int:
    """Whether the connection of a row may write with a transactional id: 1, 0, or UNDECIDED until
    Python has checked it."""
    access = get(row, Connection.ACCESS)
    if access == 0:
        return 1
    if get(access, Access.ID) == 0 or get(access, Access.ID_BYTES) != length:
        return UNDECIDED
    if memcmp(get(access, Access.ID), name, length) != 0:
        return UNDECIDED
    return get(access, Access.ID_ALLOWED)


@inlined
def snapshot(slot: int, out: int) -> int:
    """Copy the words of a slot's row; 0 when its writer did not finish its update."""
    for _ in range(TRIES):
        before = load_acquire(slot + 8 * Slot.SEQUENCE)
        if before & 1 == 0:
            for word in range(Slot.WORDS):
                store_i64(out + 8 * word, load_i64(slot + 8 * word))
            fence()
            if load_i64(slot + 8 * Slot.SEQUENCE) == before:
                return 1
    return 0


@inlined
def request_wake_up(slot: int, client: int) -> None:
    """Set this process's waiter bit; the caller then checks again."""
    word = slot + 8 * Slot.WAITERS
    bit = 1 << client
    if get(slot, Slot.WAITERS) & bit == 0:
        fetch_or(word, bit)
    fence()


@kernel("int64(int64, int64[::1])")
def read_slot(slot: int, out: NDArray[np.int64]) -> int:
    """``snapshot`` for Python; out: Slot.WORDS."""
    return snapshot(slot, out.ctypes.data)


@kernel("void(int64, int64)")
def announce_waiter(slot: int, client: int) -> None:
    """``request_wake_up`` for Python."""
    request_wake_up(slot, client)
