"""OffsetForLeaderEpoch for current leader epochs, answered from the slots; for older epochs control asks the
IO workers.
"""

from kbroker.ipc.layout import Slot
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    load_i16_be,
    load_i32_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
)
from kbroker.kernels.rows import get
from kbroker.kernels.wire import read_length, skip_tags, write_answer_head, write_count
from kbroker.net.local_answers.cached_answer_kernel import answer_from
from kbroker.net.local_answers.list_offsets_kernel import slot_of
from kbroker.net.local_answers.topic_answer_kernel import HEAD_BYTES, end_struct, named_topic
from kbroker.net.rows import Context, EpochVersion, May
from kbroker.net.rows.access_kernel import may_use
from kbroker.net.rows.connection_kernel import connection_row

MOST_EPOCH_TOPICS = 64
ASKED_BYTES = 12  # of a partition
EPOCH_ENTRY_BYTES = 24  # of a partition in the answer, at most


@inlined
def _partitions(
    cx: int, topic: int, compact: bool, position: int, end: int, out: int, limit: int
) -> tuple[int, int, int]:
    """Answer for the partitions of a topic: (position in the request, in the answer, partitions); -1: not from here."""
    count, position = read_length(position, end, compact, True)
    if position < 0 or count <= 0 or count * EPOCH_ENTRY_BYTES > limit - out:
        return -1, 0, 0
    out = write_count(out, count, compact)
    snap = get(cx, Context.SNAPSHOT)
    for _ in range(count):
        if end - position < ASKED_BYTES:
            return -1, 0, 0
        index = load_i32_be(position)
        epoch = load_i32_be(position + 8)
        if slot_of(cx, topic, index, load_i32_be(position + 4)) < 0 or epoch != get(snap, Slot.LEADER_EPOCH):
            return -1, 0, 0
        position += ASKED_BYTES
        store_i16_be(out, 0)
        store_i32_be(out + 2, index)
        store_i32_be(out + 6, epoch)
        store_i64_be(out + 10, get(snap, Slot.LOG_END))
        position, out = end_struct(position, end, compact, out + 18)
        if position < 0:
            return -1, 0, 0
    return position, out, count


@inlined
def answer_epochs(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer an OffsetForLeaderEpoch that asks for present epochs alone, without any error; False: not from here."""
    version = load_i16_be(frame + 2)
    end = frame + length
    compact = version >= EpochVersion.FLEXIBLE
    position = body + 4 if version >= EpochVersion.WITH_REPLICA else body
    if position > end:
        return False
    topics, position = read_length(position, end, compact, True)
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    limit = get(cx, Context.OUT) + get(cx, Context.OUT_BYTES)
    if position < 0 or topics <= 0 or topics > MOST_EPOCH_TOPICS or limit - start < HEAD_BYTES:
        return False
    out = write_answer_head(start + 8, compact, True, topics)
    codes = 0
    for _ in range(topics):
        topic, position, out = named_topic(cx, position, end, compact, out, limit)
        if topic == 0 or not may_use(cx, connection_row(cx, connection), topic, May.DESCRIBE):
            return False
        position, out, count = _partitions(cx, topic, compact, position, end, out, limit)
        if position < 0:
            return False
        codes += count
        position, out = end_struct(position, end, compact, out)
        if position < 0:
            return False
    if compact and skip_tags(position, end) < 0:
        return False
    answer_from(cx, connection, frame, length, start, out, compact, codes)
    return True
