"""Authorization in kernels: one byte per principal and topic, which Python has computed."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import load_u8
from kbroker.kernels.rows import get
from kbroker.net.rows import Access, Connection, Context, Grant, Topic

UNDECIDED = -1


@inlined
def may_use(cx: int, row: int, topic: int, bit: int) -> bool:
    """Whether the connection of a row may read, write or describe (a MAY bit) the topic of a topic
    row."""
    access = get(row, Connection.ACCESS)
    if access == 0:
        return True
    number = (topic - get(cx, Context.TOPICS)) // (Topic.STRIDE)
    return load_u8(get(get(access, Access.GRANT), Grant.TOPICS) + number) & bit != 0


@inlined
def may_take_producer_id(row: int) -> bool:
    """Whether the connection of a row may write with idempotence."""
    access = get(row, Connection.ACCESS)
    return access == 0 or get(get(access, Access.GRANT), Grant.PRODUCER_IDS) != 0


@inlined
def may_use_id(row: int, name: int, length: int) -> int:
    """Whether the connection of a row may write with a transactional id: 1, 0, or UNDECIDED until
    Python has checked it."""
    access = get(row, Connection.ACCESS)
    if access == 0:
        return 1
    if get(access, Access.ID) == 0 or get(access, Access.ID_BYTES) != length:
        return UNDECIDED
    if memcmp(get(access, Access.ID), name, length) != 0:
        return UNDECIDED
    return get(access, Access.ID_ALLOWED)
