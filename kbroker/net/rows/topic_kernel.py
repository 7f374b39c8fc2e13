"""Topic by name or id in the network process's table (open addressing, linear probing)."""

from kbroker.kernels.crc32c import crc32c_at
from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import load_i64
from kbroker.kernels.rows import get
from kbroker.net.rows.layout import (
    CX_ID_INDEX,
    CX_INDEX_MASK,
    CX_NAME_INDEX,
    CX_TOPICS,
    TOPIC_WORDS,
    TP_ID_HIGH,
    TP_ID_LOW,
    TP_NAME,
    TP_NAME_LENGTH,
)


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
    mask = get(cx, CX_INDEX_MASK)
    index = get(cx, CX_NAME_INDEX)
    at = name_hash(address, length) & mask
    while True:
        entry = load_i64(index + 8 * at)
        if entry == 0:
            return 0
        if entry > 0:
            row = get(cx, CX_TOPICS) + (entry - 1) * TOPIC_WORDS * 8
            if get(row, TP_NAME_LENGTH) == length and memcmp(get(row, TP_NAME), address, length) == 0:
                return row
        at = (at + 1) & mask


@inlined
def topic_by_id(cx: int, address: int) -> int:
    """Address of the row of the topic whose id's 16 bytes are at an address, 0 when there is none."""
    high = load_i64(address)
    low = load_i64(address + 8)
    mask = get(cx, CX_INDEX_MASK)
    index = get(cx, CX_ID_INDEX)
    at = id_hash(high, low) & mask
    while True:
        entry = load_i64(index + 8 * at)
        if entry == 0:
            return 0
        if entry > 0:
            row = get(cx, CX_TOPICS) + (entry - 1) * TOPIC_WORDS * 8
            if get(row, TP_ID_HIGH) == high and get(row, TP_ID_LOW) == low:
                return row
        at = (at + 1) & mask
