"""An answer table as Python makes it (`answer_table_kernel.py` reads and fills it)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbroker.net.rows import Answer, AnswerTable


def new_answer_table(words: NDArray[np.int64], first: int, capacity: int) -> list[NDArray[Any]]:
    """Make an empty table of answers or parts, described by the context's words from `first` on.
    Returns its arrays, which must live as long as the table."""
    rows: NDArray[np.int64] = Answer.table(capacity)
    index: NDArray[np.int64] = np.zeros(4 * capacity, np.int64)
    pool: NDArray[np.uint8] = np.zeros(AnswerTable.MAX_POOL_BYTES, np.uint8)
    table = words[first : first + AnswerTable.WORDS]
    table[AnswerTable.ROWS] = rows.ctypes.data
    table[AnswerTable.CAPACITY] = capacity
    table[AnswerTable.INDEX] = index.ctypes.data
    table[AnswerTable.INDEX_ENTRIES] = len(index)
    table[AnswerTable.POOL] = pool.ctypes.data
    table[AnswerTable.POOL_BYTES] = len(pool)
    return [rows, index, pool]
