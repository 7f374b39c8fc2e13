"""`python -m bench.access_check`: the time of one check of a permission, as the kernels make it for
each partition of a Produce or Fetch whose client has ACLs, over 1,000 topics in random order."""

import time
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import kernel
from kbroker.kernels.rows import get
from kbroker.net.rows import Access, Connection, Context, Grant, May, Topic
from kbroker.net.rows.topic_kernel import may_use

TOPICS: Final = 1000
CHECKS: Final = 10_000_000
ROUNDS: Final = 7


@kernel("int64(int64, int64, int64, int64)")
def check(cx: int, row: int, topics: int, count: int) -> int:
    """Check so many topics; returns how many may be written."""
    allowed = 0
    number = 1
    for _ in range(count):
        number = (number * 1103515245 + 12345) & 0x7FFFFFFF
        topic = get(cx, Context.TOPICS) + (number % topics) * Topic.STRIDE
        allowed += may_use(cx, row, topic, May.WRITE)
    return allowed


def nanoseconds() -> float:
    """The shortest time of a check, with the loop around it."""
    context, connection = Context.row(), Connection.row()
    topics, access, grant = Topic.table(TOPICS), Access.row(), Grant.row()
    bits: NDArray[np.uint8] = np.full(TOPICS, May.WRITE, np.uint8)
    context[Context.TOPICS] = topics.ctypes.data
    grant[Grant.TOPICS] = bits.ctypes.data
    access[Access.GRANT] = grant.ctypes.data
    connection[Connection.ACCESS] = access.ctypes.data
    took = []
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        allowed = check(context.ctypes.data, connection.ctypes.data, TOPICS, CHECKS)
        took.append((time.perf_counter_ns() - began) / CHECKS)
        assert allowed == CHECKS
    return min(took)


if __name__ == "__main__":
    print(f"a check takes at most {nanoseconds():.1f} ns")
