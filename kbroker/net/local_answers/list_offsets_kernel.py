"""ListOffsets answered in the network process: ends of logs from the slots, offsets by time from segment
files.

Offsets by time are found by `offset_for_time_kernel.py`. Control answers all other requests.
"""

import numpy as np
from numpy.typing import NDArray

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
)
from kbroker.kernels.rows import get
from kbroker.kernels.scan_rows import Located
from kbroker.kernels.wire import read_length, skip_tags, write_answer_head, write_count
from kbroker.net.local_answers.cached_answer_kernel import answer_from
from kbroker.net.local_answers.offset_for_time_kernel import (
    ASKS_MAX_TIMESTAMP,
    ELSEWHERE,
    FOUND_EPOCH,
    FOUND_OFFSET,
    FOUND_TIMESTAMP,
    FOUND_WORDS,
    offset_by_time,
    segment_of_time,
)
from kbroker.net.local_answers.topic_answer_kernel import HEAD_BYTES, end_struct, named_topic
from kbroker.net.rows import Context, ListOffsetsVersion, May, Partition, Topic
from kbroker.net.rows.access_kernel import may_use
from kbroker.net.rows.connection_kernel import connection_row
from kbroker.net.rows.slot_kernel import snapshot
from kbroker.net.rows.versions import Isolation

Words = NDArray[np.int64]

LATEST = -1
EARLIEST = -2
EARLIEST_LOCAL = -4  # the same where nothing is tiered
CONSUMER = -1
MOST_OFFSET_TOPICS = 64
OFFSET_ENTRY_BYTES = 32  # of a partition in the answer, at most
MOST_UNORDERED = 64  # partitions of a topic that may come in any order
MOST_BY_TIME = 256  # partitions of a topic that are looked for by time: a few microseconds each


@inlined
def slot_of(cx: int, topic: int, index: int, epoch: int) -> int:
    """The slot of a partition, which is in the snapshot then; -1 when it cannot be answered without any error."""
    if index < 0 or index >= get(topic, Topic.COUNT):
        return -1
    partition = get(cx, Context.PARTITIONS) + (get(topic, Topic.PARTITIONS) + index) * Partition.STRIDE
    slot = get(partition, Partition.SLOT)
    snap = get(cx, Context.SNAPSHOT)
    if slot < 0 or snapshot(get(cx, Context.SLOTS) + slot * Slot.STRIDE, snap) == 0:
        return -1
    if get(snap, Slot.STATE) != SlotState.ONLINE or get(snap, Slot.GENERATION) != get(
        partition, Partition.GENERATION
    ):
        return -1
    return slot if epoch == -1 or epoch == get(snap, Slot.LEADER_EPOCH) else -1


@inlined
def _find(cx: int, slot: int, asked: int, version: int, committed: bool, later: bool, found: Words) -> int:
    """What is asked of the partition in the snapshot: 1; 0: it takes longer; -1: not from here. later: it is not
    answered from here any more, but may be asked again."""
    snap = get(cx, Context.SNAPSHOT)
    limit = get(snap, Slot.LAST_STABLE if committed else Slot.HIGH_WATERMARK)
    found[FOUND_TIMESTAMP] = -1
    if asked == EARLIEST or (asked == EARLIEST_LOCAL and version >= ListOffsetsVersion.WITH_LOCAL):
        found[FOUND_OFFSET] = get(snap, Slot.LOG_START)
        found[FOUND_EPOCH] = get(snap, Slot.START_EPOCH)
        return 1
    if get(snap, Slot.HIGH_WATERMARK) < get(snap, Slot.EPOCH_START):
        return -1  # the end may be below one that was reported before: control refuses
    if asked == LATEST:
        found[FOUND_OFFSET] = limit
        found[FOUND_EPOCH] = get(snap, Slot.LEADER_EPOCH)
        return 1
    if asked < 0 and (asked != ASKS_MAX_TIMESTAMP or version < ListOffsetsVersion.WITH_MAX_TIMESTAMP):
        return -1
    segment = segment_of_time(cx, slot, asked)
    if segment < 0 or later:
        return 0
    if segment > 0:
        state = offset_by_time(cx, segment, asked, found)
        if state == ELSEWHERE:
            return 0
        if state == Located.FOUND and found[FOUND_OFFSET] < limit:
            return 1
    found[FOUND_TIMESTAMP] = found[FOUND_OFFSET] = found[FOUND_EPOCH] = -1
    return 1


@inlined
def _asked_before(entries: int, count: int, stride: int, index: int) -> bool:
    """Whether the first entries of an answer have a partition already."""
    for number in range(count):  # noqa: SIM110  a kernel has no generators
        if load_i32_be(entries + number * stride) == index:
            return True
    return False


@inlined
def _write(out: int, index: int, found: Words, version: int) -> int:
    """Write the answer of a partition, all but its tags."""
    store_i32_be(out, index)
    store_i16_be(out + 4, 0)
    store_i64_be(out + 6, found[FOUND_TIMESTAMP])
    store_i64_be(out + 14, found[FOUND_OFFSET])
    out += 22
    if version >= ListOffsetsVersion.WITH_EPOCHS:
        store_i32_be(out, found[FOUND_EPOCH])
        out += 4
    return out


@inlined
def _topic(
    cx: int, topic: int, version: int, committed: bool, position: int, end: int, out: int, limit: int
) -> tuple[int, int, int]:
    """Answer for the partitions of a topic: (position in the request, in the answer, partitions). Not from here: the
    first is -1, or the last is, when some take longer."""
    compact = version >= ListOffsetsVersion.FLEXIBLE
    count, position = read_length(position, end, compact, True)
    if position < 0 or count <= 0 or count * OFFSET_ENTRY_BYTES > limit - out:
        return -1, 0, 0
    out = write_count(out, count, compact)
    entries = out
    asked_bytes = 16 if version >= ListOffsetsVersion.WITH_EPOCHS else 12
    stride = 22 + (4 if version >= ListOffsetsVersion.WITH_EPOCHS else 0) + (1 if compact else 0)
    found = np.empty(FOUND_WORDS, np.int64)
    highest = -1
    later = count > MOST_BY_TIME
    longer = False
    for number in range(count):
        if end - position < asked_bytes:
            return -1, 0, 0
        index = load_i32_be(position)
        epoch = load_i32_be(position + 4) if version >= ListOffsetsVersion.WITH_EPOCHS else -1
        slot = slot_of(cx, topic, index, epoch)
        if slot < 0:
            return -1, 0, 0
        if index <= highest and (count > MOST_UNORDERED or _asked_before(entries, number, stride, index)):
            return -1, 0, 0
        asked = load_i64_be(position + asked_bytes - 8)
        state = _find(cx, slot, asked, version, committed, later, found)
        if state < 0:
            return -1, 0, 0
        if state == 0:
            later = longer = True
        highest = max(highest, index)
        position += asked_bytes
        position, out = end_struct(position, end, compact, _write(out, index, found, version))
        if position < 0:
            return -1, 0, 0
    return position, out, -1 if longer else count


@inlined
def answer_offsets(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a consumer's ListOffsets if there is no error in any part of it; False: control answers."""
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
    if position < 0 or topics <= 0 or topics > MOST_OFFSET_TOPICS or isolation > Isolation.READ_COMMITTED:
        return False
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    limit = get(cx, Context.OUT) + get(cx, Context.OUT_BYTES)
    if limit - start < HEAD_BYTES:
        return False
    out = write_answer_head(start + 8, compact, version >= ListOffsetsVersion.WITH_ISOLATION, topics)
    seen = get(cx, Context.PLAN)  # free here: each fetch rewrites its plan
    codes = 0
    longer = False
    for number in range(topics):
        topic, position, out = named_topic(cx, position, end, compact, out, limit)
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
        if count < 0:
            longer = True
        codes += count
        position, out = end_struct(position, end, compact, out)
        if position < 0:
            return False
    if version >= ListOffsetsVersion.WITH_TIMEOUT:
        position += 4
    if longer or position > end or (compact and skip_tags(position, end) < 0):
        return False
    answer_from(cx, connection, frame, length, start, out, compact, codes)
    return True
