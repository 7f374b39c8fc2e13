"""The table of cached answers."""

import numpy as np
from numpy.typing import NDArray

from kbroker.net.local_answers.answer_table_kernel import find_cached, row_for
from kbroker.net.network_tables import new_answer_table
from kbroker.net.rows import AnswerTable
from tests.net.colliding_names import colliding_names

KIND = 3


def test_chosen_bodies_have_places_of_their_own() -> None:
    """Clients may choose them; each search would read all of a long run."""
    words: NDArray[np.int64] = AnswerTable.row()
    arrays = new_answer_table(words, 0, AnswerTable.MAX_ANSWERS)
    table = int(words.ctypes.data)
    for name in colliding_names(1000):
        key = np.frombuffer(name.encode(), np.uint8)
        with np.errstate(over="ignore"):  # as within a kernel
            row = row_for(table, KIND, int(key.ctypes.data), len(key), 8)
            assert row == find_cached(table, KIND, int(key.ctypes.data), len(key)) != 0
    free = np.flatnonzero(arrays[1] == 0)
    assert np.diff(free).max() < 200
