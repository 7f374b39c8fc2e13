import errno
import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from tuning.bench import operations
from tuning.bench.operations import BLOCK, CHUNK, measure_operations, rate


def has_direct_io(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "probe", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        return False
    finally:
        (folder / "probe").unlink(missing_ok=True)
    return True


def test_reads_and_writes_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    if not has_direct_io(tmp_path):
        with pytest.raises(OSError, match="Invalid argument"):
            measure_operations(tmp_path, 0.05, CHUNK)
        return
    found = measure_operations(tmp_path, 0.1, 4 * CHUNK)
    assert min(found.reads, found.writes) > 0
    assert {found.read_threads, found.write_threads} <= set(operations.THREADS)
    assert not list(tmp_path.iterdir())


def test_threads_work_at_the_same_time_at_places_inside_the_file() -> None:
    places: set[int] = set()
    all_begin, threads = threading.Barrier(8), threading.local()

    def operate(fd: int, buffer: object, place: int) -> None:
        if not hasattr(threads, "began"):
            threads.began = True
            all_begin.wait(60)  # until all eight threads are here
        places.add(place)

    ticks = itertools.count()
    assert rate(-1, 64, 8, 200, operate, lambda: next(ticks)) > 0
    assert len(places) > 10
    assert all(place % BLOCK == 0 and 0 <= place < 64 * BLOCK for place in places)


def test_the_rate_is_that_of_all_threads_together() -> None:
    ticks = itertools.count()
    assert rate(-1, 64, 1, 4, lambda *_: None, lambda: next(ticks)) == 4 / 5


def test_the_error_of_a_thread_ends_the_measurement() -> None:
    def operate(fd: int, buffer: object, place: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        rate(-1, 64, 4, 0.2, operate, time.perf_counter)
