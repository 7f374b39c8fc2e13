"""Words of int64 rows by address: tables that kernels share with each other and with Python, see
the layouts.

Free rows of a table are a list, linked by one of their words, which holds how far the next free row
is from the row after this one. So a table of zeros is a list of all its rows in order, and rows
that were never used take no memory.
"""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i64, store_i64


@inlined
def get(row: int, word: int) -> int:
    """Word of a row."""
    return load_i64(row + 8 * word)


@inlined
def put(row: int, word: int, value: int) -> None:
    """Set a word of a row."""
    store_i64(row + 8 * word, value)


@inlined
def next_free(row: int, link: int, number: int) -> int:
    """Number of the free row after a free row, -1 after the last."""
    return number + 1 + load_i64(row + 8 * link)


@inlined
def link_free(row: int, link: int, number: int, following: int) -> None:
    """Put a row before the free row ``following`` (-1: there is none)."""
    store_i64(row + 8 * link, following - number - 1)
