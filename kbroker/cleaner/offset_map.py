"""The offset map of one cleaner thread."""

import mmap

import numpy as np
from numpy.typing import NDArray

from kbroker.cleaner import key_map_kernel as km
from kbroker.cleaner.rows import KeyMap
from kbroker.kernels.keyed_hash import random_key

ENTRY_BYTES = 24
MIN_SLOTS = 1024
MIN_LOAD = 0.01
SEED = random_key()


def usable_load(factor: float) -> float:
    """The nearest possible load factor; the setting has no bounds."""
    return min(1.0, max(MIN_LOAD, factor))


class OffsetMap:
    """Hash of key to last offset. Runs in: cleaner. Owner: one cleaner thread.

    table[slots, 3] and state[KeyMap.WORDS] are the kernels' (see key_map_kernel). Only as many
    slots are used as the dirty part of a log can fill: untouched memory costs nothing, and a small
    map stays in the processor's cache.
    """

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        slots = memory_bytes // ENTRY_BYTES
        if slots * load_factor < 1:
            raise ValueError(f"an offset map of {memory_bytes} bytes has no room for a key")
        self.memory_bytes = memory_bytes
        self.load_factor = load_factor
        self._memory = mmap.mmap(-1, slots * ENTRY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.table: NDArray[np.int64] = np.frombuffer(self._memory, np.int64).reshape(slots, 3)
        self.state: NDArray[np.int64] = KeyMap.row()

    def begin(self, first_dirty: int, upper: int) -> None:
        """Empty the map for the records of [first_dirty, upper)."""
        self._memory.madvise(mmap.MADV_DONTNEED)
        needed = max(MIN_SLOTS, int((upper - first_dirty) / self.load_factor) + 1)
        slots = min(len(self.table), needed)
        self.state[:] = 0
        self.state[KeyMap.SEED] = SEED
        self.state[KeyMap.SLOTS] = slots
        self.state[KeyMap.LIMIT] = max(1, min(slots - 1, int(slots * self.load_factor)))
        self.state[KeyMap.START] = first_dirty
        self.state[KeyMap.LATEST] = first_dirty - 1

    @property
    def latest(self) -> int:
        """The last offset in the map; later records stay."""
        return int(self.state[KeyMap.LATEST])

    def raise_latest(self, offset: int) -> None:
        """Note that all records up to an offset are in the map."""
        self.state[KeyMap.LATEST] = max(self.latest, offset)

    @property
    def count(self) -> int:
        """Keys in the map."""
        return int(self.state[KeyMap.COUNT])

    @property
    def utilization(self) -> float:
        """Share of the whole memory's slots that hold a key."""
        return self.count / len(self.table)

    def get(self, key: bytes) -> int:
        """Last offset of a key, -1 when unknown."""
        data = np.frombuffer(key or b"\0", np.uint8)
        return km.lookup(int(data.ctypes.data), len(key), self.table, self.state)
