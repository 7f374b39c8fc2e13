"""Committed offsets that the commit cache may change: a row of memory for each, which its kernels
find and write.

Runs in: control. Owner: the OffsetStore. A row holds the key of its records and the last value that
the cache wrote; the store's `StoredOffset` takes it over on the next read (`offset_store.py`).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.control.groups.commit_cache.layout import CacheTables, Committed
from kbroker.control.groups.commit_cache.request_kernel import enter_row
from kbroker.kernels.keyed_hash import random_key

Words = NDArray[np.int64]

FIRST_ROWS: Final = 256
MAX_ROWS: Final = 1 << 18
INDEX_SHARE: Final = 4
"""Index words for each row: a row is entered twice, by the name and by the id of its topic."""


class OffsetRows:
    """The rows, and the context of the cache's kernels (``words``; ``address`` is what they take).

    sequence: one word, the number of offsets replayed so far, which the kernels increment, too.
    counter: as Python sees it.
    """

    def __init__(self) -> None:
        self.words: Words = CacheTables.row()
        self.address = int(self.words.ctypes.data)
        self.sequence: Words = np.zeros(1, np.int64)
        self.counter = self.sequence.data
        self._scratch: Words = np.zeros(64, np.int64)
        self._rows: Words = Committed.table(0)
        self._index: Words = np.zeros(0, np.int64)
        self._used = 0
        self._free: list[int] = []
        self._dead: list[int] = []
        self.words[CacheTables.SEQUENCE] = self.sequence.ctypes.data
        self.words[CacheTables.SCRATCH] = self._scratch.ctypes.data
        self.words[CacheTables.HASH_KEY] = random_key()

    def __len__(self) -> int:
        return self._used - len(self._free) - len(self._dead)

    def enter(self, key: bytes, topic_id: bytes, idle: bool) -> int:
        """A row for the offset with this record key; -1 when it does not fit or there are too many.

        idle: no batch of the cache is pending, so that freed rows may be reused.
        """
        if len(key) > Committed.KEY_ROOM or len(topic_id) != 16:
            return -1
        if not self._free and self._used == len(self._rows) and not self._make_room(idle):
            return -1
        number = self._free.pop() if self._free else self._used
        self._used = max(self._used, number + 1)
        row = self._rows[number]
        row[:] = 0
        row[Committed.KEY_BYTES] = len(key)
        row[Committed.TOPIC_ID : Committed.TOPIC_ID + 2] = np.frombuffer(topic_id, np.int64)
        row.view(np.uint8)[8 * Committed.KEY : 8 * Committed.KEY + len(key)] = np.frombuffer(key, np.uint8)
        enter_row(self.address, number)
        return number

    def _make_room(self, idle: bool) -> bool:
        """Reuse the freed rows, or grow; the index is rebuilt."""
        if idle and len(self._dead) > len(self._rows) // 2:
            self._free, self._dead = self._dead, []
            count = len(self._rows)
        else:
            count = max(FIRST_ROWS, 2 * len(self._rows))
            if count > MAX_ROWS:
                return False
        grown: Words = Committed.table(count)
        grown[: self._used] = self._rows[: self._used]
        self._rows = grown
        self._index = np.zeros(INDEX_SHARE * count, np.int64)
        self.words[CacheTables.ROWS] = grown.ctypes.data
        self.words[CacheTables.ROW_INDEX] = self._index.ctypes.data
        self.words[CacheTables.ROW_MASK] = len(self._index) - 1
        for number in np.flatnonzero(grown[: self._used, Committed.LIVE]).tolist():
            enter_row(self.address, number)
        return True

    def drop(self, number: int) -> None:
        """Drop the row of an offset that is deleted or has another record."""
        self._rows[number, Committed.LIVE] = 0
        self._dead.append(number)

    def topic_id(self, number: int) -> bytes:
        """The topic id that the row's records carry."""
        return self._rows[number, Committed.TOPIC_ID : Committed.TOPIC_ID + 2].tobytes()

    def last(self, number: int) -> tuple[int, bytes]:
        """(sequence, value) of the last record that the cache wrote; (0, b"") before the first."""
        row = self._rows[number]
        start = 8 * Committed.VALUE
        return int(row[Committed.SEQUENCE]), row.view(np.uint8)[
            start : start + int(row[Committed.VALUE_BYTES])
        ].tobytes()
