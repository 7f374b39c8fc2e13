"""The indexes of cached decisions and of committed offsets: look-up by the bytes of a request, and
entry."""

from kbroker.control.groups.commit_lane.layout import CachedDecision, CommitLimit, Committed, Lane
from kbroker.kernels.hash_index import enter, next_row
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
    wrapped,
)
from kbroker.kernels.rows import get, put


@inlined
def _hash(address: int, length: int, seed: int) -> int:
    value = seed + length
    at = 0
    while at + 8 <= length:
        value = wrapped((value ^ load_i64(address + at)) * CommitLimit.MULTIPLIER)
        value ^= (value >> 29) & 0x7FFFFFFFF
        at += 8
    while at < length:
        value = wrapped((value ^ load_u8(address + at)) * CommitLimit.MULTIPLIER)
        value ^= (value >> 29) & 0x7FFFFFFFF
        at += 1
    return value


@inlined
def find_decision(cm: int, kind: int, prefix: int, length: int) -> int:
    """Number of the valid decision about requests that begin so, -1 when there is none."""
    key_hash = _hash(prefix, length, kind)
    index, mask = get(cm, Lane.DECISION_INDEX), get(cm, Lane.DECISION_MASK)
    number, at = next_row(index, mask, key_hash)
    while number >= 0:
        row = get(cm, Lane.DECISIONS) + number * CachedDecision.STRIDE
        if (
            get(row, CachedDecision.LIVE) != 0
            and get(row, CachedDecision.HASH) == key_hash
            and get(row, CachedDecision.KIND) == kind
            and get(row, CachedDecision.PREFIX_BYTES) == length
            and memcmp(get(row, CachedDecision.PREFIX), prefix, length) == 0
        ):
            return number
        number, at = next_row(index, mask, at)
    return -1


@inlined
def _is_row(row: int, key_hash: int, key: int, length: int, by_id: bool) -> bool:
    """Whether a row is what a scratch key names: the record's key, or group, topic id and
    partition."""
    if get(row, Committed.LIVE) == 0:
        return False
    if not by_id:
        return (
            get(row, Committed.HASH) == key_hash
            and get(row, Committed.KEY_BYTES) == length
            and memcmp(row + 8 * Committed.KEY, key, length) == 0
        )
    group = length - 24
    if get(row, Committed.ID_HASH) != key_hash or get(row, Committed.KEY_BYTES) < group + 10:
        return False
    return (
        memcmp(row + 8 * Committed.KEY + 2, key + 2, group + 2) == 0
        and memcmp(row + 8 * Committed.TOPIC_ID, key + 4 + group, 16) == 0
        and load_i32_be(row + 8 * Committed.KEY + get(row, Committed.KEY_BYTES) - 4)
        == load_i32_be(key + 20 + group)
    )


@inlined
def find_row(cm: int, length: int, by_id: bool) -> int:
    """Number of the live row that the scratch key names, -1 when there is none."""
    key = get(cm, Lane.SCRATCH)
    key_hash = _hash(key, length, 0)
    index, mask = get(cm, Lane.ROW_INDEX), get(cm, Lane.ROW_MASK)
    number, at = next_row(index, mask, key_hash)
    while number >= 0:
        if _is_row(get(cm, Lane.ROWS) + number * Committed.STRIDE, key_hash, key, length, by_id):
            return number
        number, at = next_row(index, mask, at)
    return -1


@inlined
def begin_key(cm: int, group: int, group_bytes: int, topic: int, topic_bytes: int) -> int:
    """The scratch key up to the partition; its length so far. topic_bytes -1: topic is an id of 16
    bytes."""
    key = get(cm, Lane.SCRATCH)
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


@kernel("void(int64, int64)")
def enter_decision(cm: int, number: int) -> None:
    """Index a decision whose other words are set; it is valid from now on."""
    row = get(cm, Lane.DECISIONS) + number * CachedDecision.STRIDE
    value = _hash(
        get(row, CachedDecision.PREFIX), get(row, CachedDecision.PREFIX_BYTES), get(row, CachedDecision.KIND)
    )
    put(row, CachedDecision.HASH, value)
    put(row, CachedDecision.LIVE, 1)
    enter(get(cm, Lane.DECISION_INDEX), get(cm, Lane.DECISION_MASK), value, number)


@kernel("void(int64, int64)")
def enter_row(cm: int, number: int) -> None:
    """Index a row whose key and topic id are set, by both; it is live from now on."""
    row = get(cm, Lane.ROWS) + number * Committed.STRIDE
    key_bytes = get(row, Committed.KEY_BYTES)
    key = row + 8 * Committed.KEY
    value = _hash(key, key_bytes, 0)
    put(row, Committed.HASH, value)
    enter(get(cm, Lane.ROW_INDEX), get(cm, Lane.ROW_MASK), value, number)
    group_bytes = load_i16_be(key + 2)
    length = begin_key(cm, key + 4, group_bytes, row + 8 * Committed.TOPIC_ID, -1)
    store_i32_be(get(cm, Lane.SCRATCH) + length, load_i32_be(key + key_bytes - 4))
    value = _hash(get(cm, Lane.SCRATCH), length + 4, 0)
    put(row, Committed.ID_HASH, value)
    enter(get(cm, Lane.ROW_INDEX), get(cm, Lane.ROW_MASK), value, number)
    put(row, Committed.LIVE, 1)
