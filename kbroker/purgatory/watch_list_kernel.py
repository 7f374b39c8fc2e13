"""Lists of delayed operations that watch the same key, in the order in which they came: the
purgatory of kernels.

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
