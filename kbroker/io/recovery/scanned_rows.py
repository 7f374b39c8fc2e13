"""The batches that a load has scanned, for the replay of the producers: small logs are read
once."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.scan_rows import ScannedBatch

Rows = NDArray[np.int64]
MAX_ROWS: Final = 1 << 13
"""Of one log, 0.9 MB. The headers of a larger log are read again: that takes much less time than
its CRCs, and logs are loaded side by side."""


class ScannedRows:
    """Rows of whole segments. Runs in: io, in any thread. Owner: the loader of one log."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Rows]] = {}
        self._room = MAX_ROWS

    def begin(self, base: int) -> None:
        """A scan of a segment begins; an earlier one does not count."""
        self.forget(base)
        self._rows[base] = []

    def add(self, base: int, rows: Rows, count: int) -> None:
        """Copy the next rows of a segment. If there are too many, the whole segment is
        forgotten."""
        if base not in self._rows:
            return
        if count > self._room:
            self.forget(base)
            return
        self._room -= count
        self._rows[base].append(ScannedBatch.declared(rows[:count].copy()))

    def forget(self, base: int) -> None:
        """Forget a segment."""
        self._room += sum(len(rows) for rows in self._rows.pop(base, ()))

    def of(self, base: int) -> list[Rows] | None:
        """Every batch of a segment in chunks, None if they are not known."""
        return self._rows.get(base)
