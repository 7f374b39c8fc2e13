"""ListOffsets for both ends of logs, answered from the slots; everything else of it is control's."""

from kbroker.ipc import layout as sm
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    load_i16_be,
    load_i32_be,
    load_i64,
    load_i64_be,
    load_u8,
    store_i16_be,
    store_i32_be,
    store_i64,
    store_i64_be,
    store_u8,
)
from kbroker.kernels.rows import get
from kbroker.kernels.wire import read_length, skip_tags, write_answer_head, write_count, write_string
from kbroker.net.fetch_layout import CX_PLAN, CX_SNAPSHOT
from kbroker.net.layout import (
    CX_OUT,
    CX_OUT_BYTES,
    CX_OUT_USED,
    CX_PARTITIONS,
    CX_SLOTS,
    PARTITION_WORDS,
    PT_GENERATION,
    PT_SLOT,
    TP_COUNT,
    TP_PARTITIONS,
)
from kbroker.net.slot_kernel import snapshot
from kbroker.net.standing_kernel import answer_at_once
from kbroker.net.topic_kernel import topic_by_name

LIST_OFFSETS = 2
WITH_ISOLATION = 2  # and throttle time
WITH_EPOCHS = 4
FLEXIBLE = 6
WITH_TIMEOUT = 10
WITH_LOCAL = 8
LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4  # the same where nothing is tiered
CONSUMER = -1
READ_COMMITTED = 1
MOST_TOPICS = 64
ENTRY_BYTES = 32  # of a partition in the answer, at most
MOST_UNORDERED = 64  # partitions of a topic that may come in any order


@inlined
def _end_of(cx: int, topic: int, index: int, epoch: int) -> bool:
    """Whether a partition can be answered without any error; its slot is in the snapshot then."""
    if index < 0 or index >= get(topic, TP_COUNT):
        return False
    partition = get(cx, CX_PARTITIONS) + (get(topic, TP_PARTITIONS) + index) * PARTITION_WORDS * 8
    slot = get(cx, CX_SLOTS) + get(partition, PT_SLOT) * sm.SLOT_WORDS * 8
    snap = get(cx, CX_SNAPSHOT)
    if get(partition, PT_SLOT) < 0 or snapshot(slot, snap) == 0:
        return False
    if get(snap, sm.SLOT_STATE) != sm.STATE_ONLINE or get(snap, sm.SLOT_GENERATION) != get(
        partition, PT_GENERATION
    ):
        return False
    return epoch == -1 or epoch == get(snap, sm.SLOT_LEADER_EPOCH)


@inlined
def _asked_before(entries: int, count: int, stride: int, index: int) -> bool:
    """Whether the first entries of an answer have a partition already."""
    for number in range(count):  # noqa: SIM110  a kernel has no generators
        if load_i32_be(entries + number * stride) == index:
            return True
    return False


@inlined
def _topic(
    cx: int, topic: int, version: int, committed: bool, position: int, end: int, out: int, limit: int
) -> tuple[int, int, int]:
    """Answer for the partitions of a topic: (position in the request, in the answer, partitions); -1: not from here."""
    compact = version >= FLEXIBLE
    count, position = read_length(position, end, compact, True)
    if position < 0 or count <= 0 or count * ENTRY_BYTES > limit - out:
        return -1, 0, 0
    out = write_count(out, count, compact)
    entries = out
    asked_bytes = 16 if version >= WITH_EPOCHS else 12
    stride = 22 + (4 if version >= WITH_EPOCHS else 0) + (1 if compact else 0)
    snap = get(cx, CX_SNAPSHOT)
    highest = -1
    for number in range(count):
        if end - position < asked_bytes:
            return -1, 0, 0
        index = load_i32_be(position)
        epoch = load_i32_be(position + 4) if version >= WITH_EPOCHS else -1
        end_asked = load_i64_be(position + asked_bytes - 8)
        earliest = end_asked == EARLIEST or (end_asked == EARLIEST_LOCAL and version >= WITH_LOCAL)
        if not (earliest or end_asked == LATEST) or not _end_of(cx, topic, index, epoch):
            return -1, 0, 0
        if index <= highest and (count > MOST_UNORDERED or _asked_before(entries, number, stride, index)):
            return -1, 0, 0
        highest = max(highest, index)
        position += asked_bytes
        store_i32_be(out, index)
        store_i16_be(out + 4, 0)
        store_i64_be(out + 6, -1)
        last = sm.SLOT_LAST_STABLE if committed else sm.SLOT_HIGH_WATERMARK
        store_i64_be(out + 14, get(snap, sm.SLOT_LOG_START if earliest else last))
        if version >= WITH_EPOCHS:
            store_i32_be(out + 22, get(snap, sm.SLOT_START_EPOCH if earliest else sm.SLOT_LEADER_EPOCH))
        out += stride
        if compact:
            store_u8(out - 1, 0)
            position = skip_tags(position, end)
            if position < 0:
                return -1, 0, 0
    return position, out, count


@inlined
def tell_latest(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a consumer's ListOffsets if it asks for ends of logs alone, and all are there; False: not from here."""
    version = load_i16_be(frame + 2)
    end = frame + length
    compact = version >= FLEXIBLE
    if end - body < 8 or load_i32_be(body) != CONSUMER:
        return False
    position = body + 4
    isolation = 0
    if version >= WITH_ISOLATION:
        isolation = load_u8(position)
        position += 1
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics <= 0 or topics > MOST_TOPICS or isolation > READ_COMMITTED:
        return False
    start = get(cx, CX_OUT) + get(cx, CX_OUT_USED)
    limit = get(cx, CX_OUT) + get(cx, CX_OUT_BYTES)
    if limit - start < 64:
        return False
    out = write_answer_head(start + 8, compact, version >= WITH_ISOLATION, topics)
    seen = get(cx, CX_PLAN)  # the plan of a fetch is made anew for each one
    codes = 0
    for number in range(topics):
        name_bytes, name = read_length(position, end, compact, False)
        if name < 0 or name_bytes <= 0 or name_bytes > end - name or name_bytes + 64 > limit - out:
            return False
        topic = topic_by_name(cx, name, name_bytes)
        if topic == 0:
            return False
        for earlier in range(number):
            if load_i64(seen + 8 * earlier) == topic:
                return False
        store_i64(seen + 8 * number, topic)
        out = write_string(out, name, name_bytes, compact)
        position, out, count = _topic(
            cx, topic, version, isolation == READ_COMMITTED, name + name_bytes, end, out, limit
        )
        if position < 0:
            return False
        codes += count
        if compact:
            store_u8(out, 0)
            out += 1
            position = skip_tags(position, end)
            if position < 0:
                return False
    if version >= WITH_TIMEOUT:
        position += 4
    if position > end or (compact and skip_tags(position, end) < 0):
        return False
    if compact:
        store_u8(out, 0)
        out += 1
    store_i32_be(start, out - start - 4)
    answer_at_once(cx, connection, frame, length, start, out - start, codes)
    return True
