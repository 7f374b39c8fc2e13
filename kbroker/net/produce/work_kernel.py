"""Limits the cost of the records of produced batches in one turn of a connection, so that other
connections wait some milliseconds at most.

The cost is counted in bytes that are looked at, a millisecond for about half a megabyte of the
shortest records. A connection whose requests have cost TURN continues in the next round, after all
others. A single request may cost REQUEST more; the rest of its batches is checked one by one, when
Python has time for it.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.rows import get, put
from kbroker.net.rows import Context

TURN = 2 << 20
REQUEST = 4 << 20
GZIP_WEIGHT = 4  # decompresses at a quarter of the speed of the check of records
CODEC_WEIGHT = 2  # the other codecs


@inlined
def begin_turn(cx: int) -> None:
    """A connection's requests are served, in this round for the first time or again."""
    put(cx, Context.WORK_LEFT, TURN)


@inlined
def spend(cx: int, count: int) -> None:
    """Count bytes that were checked."""
    put(cx, Context.WORK_LEFT, get(cx, Context.WORK_LEFT) - count)


@inlined
def turn_is_over(cx: int) -> bool:
    """Whether the connection's next request has to wait for the next round."""
    return get(cx, Context.WORK_LEFT) <= 0


@inlined
def costs_too_much(cx: int) -> bool:
    """Whether the rest of the request is checked later."""
    return get(cx, Context.WORK_LEFT) <= -REQUEST
