"""Finds a topic by name or id in the network process's table."""

from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.hash_index import next_row
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import load_i64
from kbroker.kernels.rows import get
from kbroker.net.rows import Context, Topic


@inlined
def name_hash(address: int, length: int) -> int:
    """Hash of a topic name's bytes."""
    return crc32c_at(address, length)


@inlined
def id_hash(high: int, low: int) -> int:
    """Hash of a topic id's two words: ids are random already."""
    return high ^ low


@inlined
def topic_by_name(cx: int, address: int, length: int) -> int:
    """Address of the topic's row, 0 when there is none."""
    index, mask = get(cx, Context.NAME_INDEX), get(cx, Context.INDEX_MASK)
    number, at = next_row(index, mask, name_hash(address, length))
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
