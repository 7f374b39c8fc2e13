"""The page of memory that a client's process and its Locust user share: a file of int64 slots,
mapped by both.

The user writes STOP and RESETS; the client writes the rest. A slot has one writer and is one
aligned word, so no lock.
"""

import mmap
from enum import IntEnum
from pathlib import Path

import numpy as np

from loadtest.histogram import BUCKETS, Counts


class Slot(IntEnum):
    STOP = 0  # not 0: end in order
    RESETS = 1  # grows: reset every connection once
    HEARTBEAT_NS = 2  # monotonic
    CPU_NS = 3  # user + system of the client's process and of those that write its histories
    SENT = 4
    ACKED = 5
    FAILED = 6  # failed or unknown
    ACKED_BYTES = 7
    SEEN = 8
    SEEN_BYTES = 9
    COMMITTED = 10  # transactions
    ABORTED = 11
    ASSIGNED = 12  # partitions held
    WAITING = 13  # due, not yet sent
    LIVES = 14  # client objects made after fatal errors
    DONE = 15


SLOTS = 16


class Times(IntEnum):
    """Histograms of a page."""

    ACK = 0  # acknowledged - intended
    DELAY = 1  # sent - intended
    END_TO_END = 2  # seen - intended


class Page:
    """Created by the user, opened by the client; `unlink` after use."""

    def __init__(self, path: Path, create: bool = False) -> None:
        words = SLOTS + len(Times) * BUCKETS
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(words * 8))
        self._path = path
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), words * 8)
        self.words = np.frombuffer(self._map, np.int64)

    def __getitem__(self, slot: Slot) -> int:
        return int(self.words[slot])

    def __setitem__(self, slot: Slot, value: int) -> None:
        self.words[slot] = value

    def add(self, slot: Slot, more: int) -> None:
        self.words[slot] += more

    def times(self, which: Times) -> Counts:
        begin = SLOTS + which * BUCKETS
        return self.words[begin : begin + BUCKETS]

    def unlink(self) -> None:
        self._path.unlink(missing_ok=True)
