"""An index of rows by a hash: open addressing with linear probing over words, as many as a power of
two.

A word is the number of a row + 1, 0 is free, -1 was removed. The caller compares the rows that it
is given, and keeps the index at most half full. Its kernels loop so:

    number, at = next_row(index, mask, hashed)
    while number >= 0:
        if <the row of this number is the one>:
            return ...
        number, at = next_row(index, mask, at)
"""

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i64, store_i64

FREE = 0
REMOVED = -1


@inlined
def next_row(index: int, mask: int, at: int) -> tuple[int, int]:
    """The row of the first entry from a place on (a hash at first), -1 where the search ends; the
    place after it.

    index: address of the first word. mask: words - 1."""
    while True:
        entry = load_i64(index + 8 * (at & mask))
        at = (at & mask) + 1
        if entry != REMOVED:
            return entry - 1, at


@inlined
def enter(index: int, mask: int, hashed: int, number: int) -> None:
    """Enter a row that is not in the index."""
    at = hashed & mask
    while load_i64(index + 8 * at) != FREE:
        at = (at + 1) & mask
    store_i64(index + 8 * at, number + 1)


def enter_in(index: NDArray[np.int64], hashed: int, number: int) -> None:
    """As `enter`, from Python; the place of a removed row is taken again."""
    mask = len(index) - 1
    at = hashed & mask
    while index[at] > FREE:
        at = (at + 1) & mask
    index[at] = number + 1


def remove_from(index: NDArray[np.int64], number: int) -> None:
    """Remove a row, wherever it is."""
    index[index == number + 1] = REMOVED
