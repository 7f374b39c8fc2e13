"""Lists of delayed operations that watch the same key, in the order in which they came: the purgatory of kernels.

Layout: ``delayed_produce_layout``.
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined
from kbroker.purgatory import delayed_produce_layout as dp

Table = NDArray[np.int64]


@inlined
def watch(delayed: Table, lists: Table, which: int, number: int) -> None:
    """Put a row at the end of a list."""
    delayed[number, dp.DELAYED_NEXT] = 0
    tail = lists[which, dp.LIST_TAIL]
    if tail > 0:
        delayed[tail, dp.DELAYED_NEXT] = number
    else:
        lists[which, dp.LIST_HEAD] = number
    lists[which, dp.LIST_TAIL] = number


@inlined
def unwatch(delayed: Table, lists: Table, which: int, previous: int, number: int) -> int:
    """Take a row out of a list, behind ``previous`` (0: it is the first); the row that followed it."""
    following = delayed[number, dp.DELAYED_NEXT]
    if previous > 0:
        delayed[previous, dp.DELAYED_NEXT] = following
    else:
        lists[which, dp.LIST_HEAD] = following
    if following == 0:
        lists[which, dp.LIST_TAIL] = previous
    return following
