"""Readers of a group never see half of a change."""

import threading
import time
from itertools import count

import numpy as np

from kbroker.ipc.layout import Slot
from kbroker.kernels import plain
from kbroker.kernels.sequence import write_group
from kbroker.net.rows.topic_kernel import read_slot

CHANGES_WITHOUT_PAUSE = 1 if plain.ACTIVE else 50
"""Kernels that run as plain Python share one lock with the reader, who needs time for a whole
read."""


def test_a_group_is_written_under_its_counter() -> None:
    words = np.zeros(8, np.int64)
    write_group(words, np.array([1, 5]), np.array([10, 50]))
    assert words.tolist() == [2, 10, 0, 0, 0, 50, 0, 0]


def test_a_counter_left_odd_by_a_crash_becomes_even() -> None:
    words, copy = Slot.row(), Slot.row(writer="network")
    words[0] = 5
    assert not read_slot(words.ctypes.data, copy)
    write_group(words, np.array([1]), np.array([11]))
    assert words[0] == 6
    assert read_slot(words.ctypes.data, copy)
    assert copy[:2].tolist() == [6, 11]


def test_readers_see_consistent_groups_while_one_writes() -> None:
    words, copy = Slot.row(), Slot.row(writer="network")
    places, stop = np.array([1, 2, 15]), threading.Event()

    def write() -> None:
        for n in count():
            write_group(words, places, np.array([n, n, n]))
            if n % CHANGES_WITHOUT_PAUSE == 0:
                time.sleep(0.001)
            if stop.is_set():
                return

    writer, seen, end_s = threading.Thread(target=write), set[int](), time.monotonic() + 60
    writer.start()
    try:
        while len(seen) < 100 and time.monotonic() < end_s:
            if read_slot(words.ctypes.data, copy):
                assert copy[1] == copy[2] == copy[15]
                seen.add(int(copy[1]))
    finally:
        stop.set()
        writer.join()
    assert len(seen) == 100
