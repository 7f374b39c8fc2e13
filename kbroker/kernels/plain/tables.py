"""Rows whose writers are checked: `Row.table` returns them while kernels are plain."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.plain.memory_map import MEMORY, place
from kbroker.kernels.plain.numpy_memory import note, watch
from kbroker.kernels.plain.writers import WORD_BYTES, Declaration, Rows, process


class CheckedRows(np.ndarray[Any, np.dtype[np.int64]]):
    """An array of rows. Assignments of Python are checked like stores of kernels."""

    def __setitem__(self, key: Any, value: Any) -> None:
        table = self._table()
        if table is not None and (who := process()):
            for number in self._words(key, table):
                table.check_word(number, -1, who, place)
        super().__setitem__(key, value)

    def _table(self) -> Rows | None:
        if not self.size:
            return None
        block = MEMORY.block_at(self.ctypes.data)
        return block.table_at(self.ctypes.data) if block is not None and block.rows else None

    def _words(self, key: Any, table: Rows) -> set[int]:
        """Numbers of the words that an assignment to a part of this array changes."""
        plain = self.view(np.ndarray)
        first = (self.ctypes.data - table.start) // WORD_BYTES
        places = np.zeros((), np.int64)
        for axis, (count, stride) in enumerate(zip(plain.shape, plain.strides, strict=True)):
            shape = [1] * plain.ndim
            shape[axis] = count
            places = places + (np.arange(count) * (stride // WORD_BYTES)).reshape(shape)
        words = table.row.WORDS
        return set(np.ravel((first + np.broadcast_to(places, plain.shape)[key]) % words).tolist())


def declare(row: Declaration, array: NDArray[np.int64], writer: str = "") -> NDArray[np.int64]:
    """The array as rows of a kind, whose writers are checked from now on. writer: in place of the
    declared one."""
    watch()
    if not array.size:
        return array
    note(array)
    start = array.ctypes.data
    block = MEMORY.find(start, array.nbytes, "declare")
    block.rows[:] = [one for one in block.rows if one.end <= start or start + array.nbytes <= one.start]
    block.rows.append(Rows(start, start + array.nbytes, row, writer))
    return array.view(CheckedRows)
