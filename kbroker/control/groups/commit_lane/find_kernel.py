"""Finding passes and committed offsets by what a request says, and entering them."""

from kbroker.control.groups.commit_lane.layout import (
    CM_PASS_INDEX,
    CM_PASS_MASK,
    CM_PASSES,
    CM_ROW_INDEX,
    CM_ROW_MASK,
    CM_ROWS,
    CM_SCRATCH,
    MULTIPLIER,
    PA_HASH,
    PA_KIND,
    PA_LIVE,
    PA_PREFIX,
    PA_PREFIX_BYTES,
    PASS_WORDS,
    RO_HASH,
    RO_ID_HASH,
    RO_KEY,
    RO_KEY_BYTES,
    RO_LIVE,
    RO_TOPIC_ID,
    ROW_WORDS,
)
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import (
    copy,
    load_i16_be,
    load_i32_be,
    load_i64,
    load_u8,
    store_i16_be,
    store_i32_be,
    store_i64,
)
from kbroker.kernels.rows import get, put


@inlined
def _hash(address: int, length: int, seed: int) -> int:
    value = seed + length
    at = 0
    while at + 8 <= length:
        value = (value ^ load_i64(address + at)) * MULTIPLIER
        value ^= (value >> 29) & 0x7FFFFFFFF
        at += 8
    while at < length:
        value = (value ^ load_u8(address + at)) * MULTIPLIER
        value ^= (value >> 29) & 0x7FFFFFFFF
        at += 1
    return value


@inlined
def find_pass(cm: int, kind: int, prefix: int, length: int) -> int:
    """Number of the live pass with this beginning, -1 when there is none."""
    wanted = _hash(prefix, length, kind)
    mask = get(cm, CM_PASS_MASK)
    at = wanted & mask
    while True:
        number = load_i64(get(cm, CM_PASS_INDEX) + 8 * at) - 1
        if number < 0:
            return -1
        row = get(cm, CM_PASSES) + number * PASS_WORDS * 8
        if (
            get(row, PA_LIVE) != 0
            and get(row, PA_HASH) == wanted
            and get(row, PA_KIND) == kind
            and get(row, PA_PREFIX_BYTES) == length
            and memcmp(get(row, PA_PREFIX), prefix, length) == 0
        ):
            return number
        at = (at + 1) & mask


@inlined
def _is_row(row: int, wanted: int, key: int, length: int, by_id: bool) -> bool:
    """Whether a row is what a scratch key names: the record's key, or group, topic id and partition."""
    if get(row, RO_LIVE) == 0:
        return False
    if not by_id:
        return (
            get(row, RO_HASH) == wanted
            and get(row, RO_KEY_BYTES) == length
            and memcmp(row + 8 * RO_KEY, key, length) == 0
        )
    group = length - 24
    if get(row, RO_ID_HASH) != wanted or get(row, RO_KEY_BYTES) < group + 10:
        return False
    return (
        memcmp(row + 8 * RO_KEY + 2, key + 2, group + 2) == 0
        and memcmp(row + 8 * RO_TOPIC_ID, key + 4 + group, 16) == 0
        and load_i32_be(row + 8 * RO_KEY + get(row, RO_KEY_BYTES) - 4) == load_i32_be(key + 20 + group)
    )


@inlined
def find_row(cm: int, length: int, by_id: bool) -> int:
    """Number of the live row that the scratch key names, -1 when there is none."""
    key = get(cm, CM_SCRATCH)
    wanted = _hash(key, length, 0)
    mask = get(cm, CM_ROW_MASK)
    at = wanted & mask
    while True:
        number = load_i64(get(cm, CM_ROW_INDEX) + 8 * at) - 1
        if number < 0:
            return -1
        if _is_row(get(cm, CM_ROWS) + number * ROW_WORDS * 8, wanted, key, length, by_id):
            return number
        at = (at + 1) & mask


@inlined
def begin_key(cm: int, group: int, group_bytes: int, topic: int, topic_bytes: int) -> int:
    """The scratch key up to the partition; its length so far. topic_bytes -1: topic is an id of 16 bytes."""
    key = get(cm, CM_SCRATCH)
    store_i16_be(key, 1)
    store_i16_be(key + 2, group_bytes)
    copy(key + 4, group, group_bytes)
    at = 4 + group_bytes
    if topic_bytes < 0:
        copy(key + at, topic, 16)
        return at + 16
    store_i16_be(key + at, topic_bytes)
    copy(key + at + 2, topic, topic_bytes)
    return at + 2 + topic_bytes


@inlined
def _index(index: int, mask: int, value: int, number: int) -> None:
    at = value & mask
    while load_i64(index + 8 * at) != 0:
        at = (at + 1) & mask
    store_i64(index + 8 * at, number + 1)


@kernel("void(int64, int64)")
def enter_pass(cm: int, number: int) -> None:
    """Index a pass whose other words are set; it is live from now on."""
    row = get(cm, CM_PASSES) + number * PASS_WORDS * 8
    value = _hash(get(row, PA_PREFIX), get(row, PA_PREFIX_BYTES), get(row, PA_KIND))
    put(row, PA_HASH, value)
    put(row, PA_LIVE, 1)
    _index(get(cm, CM_PASS_INDEX), get(cm, CM_PASS_MASK), value, number)


@kernel("void(int64, int64)")
def enter_row(cm: int, number: int) -> None:
    """Index a row whose key and topic id are set, by both; it is live from now on."""
    row = get(cm, CM_ROWS) + number * ROW_WORDS * 8
    key_bytes = get(row, RO_KEY_BYTES)
    key = row + 8 * RO_KEY
    value = _hash(key, key_bytes, 0)
    put(row, RO_HASH, value)
    _index(get(cm, CM_ROW_INDEX), get(cm, CM_ROW_MASK), value, number)
    group_bytes = load_i16_be(key + 2)
    length = begin_key(cm, key + 4, group_bytes, row + 8 * RO_TOPIC_ID, -1)
    store_i32_be(get(cm, CM_SCRATCH) + length, load_i32_be(key + key_bytes - 4))
    value = _hash(get(cm, CM_SCRATCH), length + 4, 0)
    put(row, RO_ID_HASH, value)
    _index(get(cm, CM_ROW_INDEX), get(cm, CM_ROW_MASK), value, number)
    put(row, RO_LIVE, 1)
