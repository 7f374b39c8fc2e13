"""The open transactions of one log, by their first offset.

A walk over all producers of the IO worker, of which clients may make very many, would delay all
others at each end of a transaction. So the kernels note the transactions that begin in the log's
row.
"""

from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.append.rows import AppendRow

FEW: Final = 64
"""Entries of the heap that are kept, whether or not their transactions are open."""


class OpenTransactions:
    """Runs in: io. Owner: the log's ProducerStateManager. The heap has (first offset, producer id)
    of all open transactions but those in the row, and some that have ended; None: not known."""

    def __init__(self, table: ProducerTable, slot: int) -> None:
        self._table = table
        self._slot = slot
        self._heap: list[tuple[int, int]] | None = None
        self._limit = FEW

    def forget(self) -> None:
        """The producers of the log are replaced."""
        self._heap = None

    def note(self, row: NDArray[np.int64]) -> None:
        """Take over the transactions that have begun since the last call. row: of the log."""
        count = int(row[AppendRow.OPENED])
        row[AppendRow.OPENED] = 0
        if count > AppendRow.MAX_OPENED:
            self._heap = None
        if self._heap is None:
            return
        for at in range(AppendRow.OPENINGS, AppendRow.OPENINGS + 2 * count, 2):
            heappush(self._heap, (int(row[at]), int(row[at + 1])))
        if len(self._heap) > self._limit:
            self._heap = [each for each in self._heap if self._table.is_open(self._slot, *each)]
            heapify(self._heap)
            self._limit = max(FEW, 2 * len(self._heap))

    def earliest(self) -> int:
        """First offset of the earliest open transaction, -1 when none is open. `note` has been
        called."""
        if self._heap is None:
            self._heap = self._table.open_transactions(self._slot)
        while self._heap and not self._table.is_open(self._slot, *self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else -1

    def reopened(self, producer_id: int, first_offset: int) -> None:
        """The end of a transaction has been undone."""
        if self._heap is not None:
            heappush(self._heap, (first_offset, producer_id))
