"""Readers of a group never see half of a change."""

import threading

import numpy as np

from kbroker.kernels.sequence import read_group, write_group


def test_a_group_is_written_under_its_counter() -> None:
    words = np.zeros(8, np.int64)
    write_group(words, np.array([1, 5]), np.array([10, 50]))
    assert words.tolist() == [2, 10, 0, 0, 0, 50, 0, 0]
    words[0] = 5  # its owner died while writing
    copy = np.zeros(3, np.int64)
    assert read_group(words, copy, 100) == 0
    write_group(words, np.array([1]), np.array([11]))
    assert words[0] == 6
    assert read_group(words, copy, 100) == 1
    assert copy.tolist() == [6, 11, 0]


def test_readers_in_other_threads_see_whole_groups() -> None:
    words, stop = np.zeros(4, np.int64), threading.Event()
    places = np.array([1, 2, 3])

    def write() -> None:
        for n in range(20000):
            write_group(words, places, np.array([n, n, n]))
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    copy, seen = np.zeros(4, np.int64), set()
    while not stop.is_set():
        if read_group(words, copy, 1000):
            assert copy[1] == copy[2] == copy[3]
            seen.add(int(copy[1]))
    writer.join()
    assert seen
