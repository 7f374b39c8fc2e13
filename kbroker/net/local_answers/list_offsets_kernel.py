"""ListOffsets answered in the network process: starts and ends of logs, from the slots.

Consumers without a position and tools that compute lag ask for these again and again. Control
answers all other requests: offsets by time, errors.
"""

from kbroker.ipc.layout import Slot, SlotState
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
from kbroker.net.local_answers.cached_answer_kernel import answer_from
from kbroker.net.rows import Context, Isolation, ListOffsetsVersion, May, Partition, Topic
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.topic_kernel import may_use, snapshot, topic_by_name

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4  # the same as without tiered storage
CONSUMER = -1
MAX_OFFSET_TOPICS = 64
ANSWERED_OFFSET_BYTES = 32  # of a partition in the answer, at most
MAX_UNORDERED = 64  # partitions of a topic that may come in any order
NO_TIMESTAMP = -1
HEAD_BYTES = 64  # room that the head of an answer takes at most, or that of a topic besides its name


@inlined
def _named_topic(
    cx: int, position: int, end: int, compact: bool, out: int, limit: int
) -> tuple[int, int, int]:
    """Read the next topic of a request, and write its name into the answer: (its row, position in
    the request, in the answer). The row is 0 when it cannot be answered from here."""
    name_bytes, name = read_length(position, end, compact, False)
    if name < 0 or name_bytes <= 0 or name_bytes > end - name or name_bytes + HEAD_BYTES > limit - out:
        return 0, 0, 0
    topic = topic_by_name(cx, name, name_bytes)
    if topic == 0:
        return 0, 0, 0
    return topic, name + name_bytes, write_string(out, name, name_bytes, compact)


@inlined
def _end_struct(position: int, end: int, compact: bool, out: int) -> tuple[int, int]:
    """Skip the end of a partition or topic: (position in the request, in the answer); -1 if the
    request is malformed."""
    if compact:
        store_u8(out, 0)
        return skip_tags(position, end), out + 1
    return position, out


@inlined
def _is_readable(cx: int, topic: int, index: int, epoch: int) -> bool:
    """Whether a partition can be answered without any error: then its slot is in the snapshot."""
    if index < 0 or index >= get(topic, Topic.COUNT):
        return False
    partition = get(cx, Context.PARTITIONS) + (get(topic, Topic.PARTITIONS) + index) * Partition.STRIDE
    slot = get(partition, Partition.SLOT)
    snap = get(cx, Context.SNAPSHOT)
    if slot < 0 or snapshot(get(cx, Context.SLOTS) + slot * Slot.STRIDE, snap) == 0:
        return False
    if get(snap, Slot.STATE) != SlotState.ONLINE:
        return False
    if get(snap, Slot.GENERATION) != get(partition, Partition.GENERATION):
        return False
    return epoch == -1 or epoch == get(snap, Slot.LEADER_EPOCH)


@inlined
def _find(cx: int, timestamp: int, version: int, committed: bool) -> tuple[int, int]:
    """The requested offset and its leader epoch, from the snapshot of the partition; offset -1:
    control answers."""
    snap = get(cx, Context.SNAPSHOT)
    if timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and version >= ListOffsetsVersion.WITH_LOCAL):
        return get(snap, Slot.LOG_START), get(snap, Slot.START_EPOCH)
    if timestamp != LATEST or get(snap, Slot.HIGH_WATERMARK) < get(snap, Slot.EPOCH_START):
        return -1, -1  # the end may be below an end that was reported before: control refuses
    end = get(snap, Slot.LAST_STABLE if committed else Slot.HIGH_WATERMARK)
    return end, get(snap, Slot.LEADER_EPOCH)


@inlined
def _is_answered(entries: int, count: int, stride: int, index: int) -> bool:
    """Whether the first entries of an answer already contain a partition."""
    for number in range(count):  # noqa: SIM110  a kernel has no generators
        if load_i32_be(entries + number * stride) == index:
            return True
    return False


@inlined
def _write(out: int, index: int, offset: int, epoch: int, version: int) -> int:
    """Write the answer of a partition, all but its tags."""
    store_i32_be(out, index)
    store_i16_be(out + 4, 0)
    store_i64_be(out + 6, NO_TIMESTAMP)
    store_i64_be(out + 14, offset)
    out += 22
    if version >= ListOffsetsVersion.WITH_EPOCHS:
        store_i32_be(out, epoch)
        out += 4
    return out


@inlined
def _topic(
    cx: int, topic: int, version: int, committed: bool, position: int, end: int, out: int, limit: int
) -> tuple[int, int, int]:
    """Answer for the partitions of a topic: (position in the request, in the answer, partitions);
    -1: control answers."""
    compact = version >= ListOffsetsVersion.FLEXIBLE
    count, position = read_length(position, end, compact, True)
    if position < 0 or count <= 0 or count * ANSWERED_OFFSET_BYTES > limit - out:
        return -1, 0, 0
    out = write_count(out, count, compact)
    entries = out
    request_bytes = 16 if version >= ListOffsetsVersion.WITH_EPOCHS else 12
    stride = 22 + (4 if version >= ListOffsetsVersion.WITH_EPOCHS else 0) + (1 if compact else 0)
    highest = -1
    for number in range(count):
        if end - position < request_bytes:
            return -1, 0, 0
        index = load_i32_be(position)
        epoch = load_i32_be(position + 4) if version >= ListOffsetsVersion.WITH_EPOCHS else -1
        if not _is_readable(cx, topic, index, epoch):
            return -1, 0, 0
        if index <= highest and (count > MAX_UNORDERED or _is_answered(entries, number, stride, index)):
            return -1, 0, 0
        offset, epoch = _find(cx, load_i64_be(position + request_bytes - 8), version, committed)
        if offset < 0:
            return -1, 0, 0
        highest = max(highest, index)
        position += request_bytes
        out = _write(out, index, offset, epoch, version)
        position, out = _end_struct(position, end, compact, out)
        if position < 0:
            return -1, 0, 0
    return position, out, count


@inlined
def answer_offsets(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a consumer's ListOffsets if there is no error in any part of it; False: control
    answers."""
    version = load_i16_be(frame + 2)
    end = frame + length
    compact = version >= ListOffsetsVersion.FLEXIBLE
    if end - body < 8 or load_i32_be(body) != CONSUMER:
        return False
    position = body + 4
    isolation = 0
    if version >= ListOffsetsVersion.WITH_ISOLATION:
        isolation = load_u8(position)
        position += 1
    topics, position = read_length(position, end, compact, True)
    if position < 0 or topics <= 0 or topics > MAX_OFFSET_TOPICS or isolation > Isolation.READ_COMMITTED:
        return False
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    limit = get(cx, Context.OUT) + get(cx, Context.OUT_BYTES)
    if limit - start < HEAD_BYTES:
        return False
    out = write_answer_head(start + 8, compact, version >= ListOffsetsVersion.WITH_ISOLATION, topics)
    seen = get(cx, Context.PLAN)  # usable as scratch: each fetch rewrites its plan
    codes = 0
    for number in range(topics):
        topic, position, out = _named_topic(cx, position, end, compact, out, limit)
        if topic == 0 or not may_use(cx, connection_row(cx, connection), topic, May.DESCRIBE):
            return False
        for earlier in range(number):
            if load_i64(seen + 8 * earlier) == topic:
                return False
        store_i64(seen + 8 * number, topic)
        position, out, count = _topic(
            cx, topic, version, isolation == Isolation.READ_COMMITTED, position, end, out, limit
        )
        if position < 0:
            return False
        codes += count
        position, out = _end_struct(position, end, compact, out)
        if position < 0:
            return False
    if version >= ListOffsetsVersion.WITH_TIMEOUT:
        position += 4
    if position > end or (compact and skip_tags(position, end) < 0):
        return False
    answer_from(cx, connection, frame, length, start, out, compact, codes)
    return True
