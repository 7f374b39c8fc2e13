"""InitProducerId of idempotent producers, answered with an id of the shared range. Control answers
all other requests, and these when the range is used up.
"""

from kbroker.ipc.producer_id_kernel import NO_ID, take_id
from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import (
    load_i16_be,
    load_i64_be,
    store_i16_be,
    store_i32_be,
    store_i64_be,
)
from kbroker.kernels.rows import get
from kbroker.kernels.wire import read_length, skip_tags, write_no_tags
from kbroker.net.local_answers.cached_answer_kernel import answer_from
from kbroker.net.rows import Context, ProducerIdVersion

ANSWER_BYTES = 32  # at most
NO_PRODUCER = -1


@inlined
def answer_producer_id(cx: int, connection: int, frame: int, length: int, body: int) -> bool:
    """Answer a request for a new id without a transactional id; False: control answers."""
    version = load_i16_be(frame + 2)
    end = frame + length
    compact = version >= ProducerIdVersion.FLEXIBLE
    name_bytes, position = read_length(body, end, compact, False)
    if position < 0 or name_bytes >= 0:
        return False
    position += 4  # transaction timeout
    if version >= ProducerIdVersion.WITH_PRODUCER:
        if (
            end - position < 10
            or load_i64_be(position) != NO_PRODUCER
            or load_i16_be(position + 8) != NO_PRODUCER
        ):
            return False
        position += 10
    if position > end or (compact and skip_tags(position, end) < 0):
        return False
    start = get(cx, Context.OUT) + get(cx, Context.OUT_USED)
    if get(cx, Context.OUT) + get(cx, Context.OUT_BYTES) - start < ANSWER_BYTES:
        return False
    taken = take_id(get(cx, Context.PRODUCER_IDS))
    if taken == NO_ID:
        return False
    out = start + 8
    out = write_no_tags(out, compact)
    store_i32_be(out, 0)
    store_i16_be(out + 4, 0)
    store_i64_be(out + 6, taken)
    store_i16_be(out + 14, 0)
    out += 16
    answer_from(cx, connection, frame, length, start, out, compact, 1)
    return True
