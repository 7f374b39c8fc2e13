"""Lists of delayed operations that watch the same key: the purgatory of kernels.

Layout: ``delayed_produce_layout``.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined
from kbroker.purgatory.delayed_produce_layout import DelayedList, DelayedProduce

Table = NDArray[np.int64]


@inlined
def watch(delayed: Table, lists: Table, which: int, number: int) -> None:
    """Put a row at the end of a list."""
    delayed[number, DelayedProduce.NEXT] = 0
    tail = lists[which, DelayedList.TAIL]
    if tail > 0:
        delayed[tail, DelayedProduce.NEXT] = number
    else:
        lists[which, DelayedList.HEAD] = number
    lists[which, DelayedList.TAIL] = number


@inlined
def watch_by_offset(delayed: Table, lists: Table, which: int, number: int) -> None:
    """Put a row into a list that rises by last offset, after the rows with the same one."""
    last = delayed[number, DelayedProduce.LAST_OFFSET]
    tail = lists[which, DelayedList.TAIL]
    if tail <= 0 or delayed[tail, DelayedProduce.LAST_OFFSET] <= last:
        watch(delayed, lists, which, number)
        return
    previous = 0
    following = lists[which, DelayedList.HEAD]
    while delayed[following, DelayedProduce.LAST_OFFSET] <= last:
        previous = following
        following = delayed[following, DelayedProduce.NEXT]
    delayed[number, DelayedProduce.NEXT] = following
    if previous > 0:
        delayed[previous, DelayedProduce.NEXT] = number
    else:
        lists[which, DelayedList.HEAD] = number


@inlined
def unwatch(delayed: Table, lists: Table, which: int, previous: int, number: int) -> int:
    """Take a row out of a list, after ``previous`` (0: it is the first); returns the row that
    followed it."""
    following = delayed[number, DelayedProduce.NEXT]
    if previous > 0:
        delayed[previous, DelayedProduce.NEXT] = following
    else:
        lists[which, DelayedList.HEAD] = following
    if following == 0:
        lists[which, DelayedList.TAIL] = previous
    return following
