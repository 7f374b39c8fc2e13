"""Steps that are common to all local answers to requests that name partitions by topic."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import store_u8
from kbroker.kernels.wire import read_length, skip_tags, write_string
from kbroker.net.rows.topic_kernel import topic_by_name

HEAD_BYTES = 64  # room that the head of an answer takes at most, or that of a topic besides its name


@inlined
def named_topic(
    cx: int, position: int, end: int, compact: bool, out: int, limit: int
) -> tuple[int, int, int]:
    """The topic that is named next in a request, and its name in the answer: (its row, position in the request, in the
    answer). The row is 0 when it cannot be answered from here."""
    name_bytes, name = read_length(position, end, compact, False)
    if name < 0 or name_bytes <= 0 or name_bytes > end - name or name_bytes + HEAD_BYTES > limit - out:
        return 0, 0, 0
    topic = topic_by_name(cx, name, name_bytes)
    if topic == 0:
        return 0, 0, 0
    return topic, name + name_bytes, write_string(out, name, name_bytes, compact)


@inlined
def end_struct(position: int, end: int, compact: bool, out: int) -> tuple[int, int]:
    """The end of a partition, or of a topic: (position in the request, in the answer); -1 for what is broken."""
    if compact:
        store_u8(out, 0)
        return skip_tags(position, end), out + 1
    return position, out
