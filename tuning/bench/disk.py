"""Appends, syncs and cold reads as kbroker does them: buffered pwrite, fdatasync, reads with a
window ahead; by one thread and by several, each with a log of its own."""

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

CHUNK = 1 << 20
SMALL = 16 << 10
WINDOW = 32 << 20  # as far as kbroker reads ahead of a lagging consumer
ENOUGH_SYNCS = 1000
FEWEST_SYNCS = 5
STREAMS = 4
"""Threads beside one: as many logs are appended to, or read, at the same time."""

Clock = Callable[[], float]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """Bytes/s, of one thread or of STREAMS, whichever are faster; and seconds."""

    write_rate: float
    cold_read_rate: float
    sync_p50_s: float
    sync_p99_s: float


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    rank = math.ceil(len(values) * share)
    return sorted(values)[max(rank, 1) - 1]


def measure_disk(
    folder: Path, seconds: float, max_bytes: int, clock: Clock = time.perf_counter
) -> DiskFigures:
    """Appends and cold reads of one thread, then of several, then syncs, on files that are removed.
    max_bytes: of all files together."""
    rates = [_rates(folder, count, seconds * 0.4, max_bytes // count, clock) for count in (1, STREAMS)]
    name = folder / f".tuning-bench-{os.getpid()}"
    try:
        with open(name, "w+b", buffering=0) as file:
            syncs = sync_times(file.fileno(), seconds * 0.2, clock)
    finally:
        name.unlink(missing_ok=True)
    write_rate, cold_read_rate = (max(side) for side in zip(*rates, strict=True))
    return DiskFigures(write_rate, cold_read_rate, percentile(syncs, 0.5), percentile(syncs, 0.99))


def _rates(folder: Path, count: int, seconds: float, max_bytes: int, clock: Clock) -> tuple[float, float]:
    """Bytes/s that so many threads append together, and then read. max_bytes: of each."""
    names = [folder / f".tuning-bench-{os.getpid()}-{number}" for number in range(count)]
    try:
        with ExitStack() as stack:
            fds = [stack.enter_context(open(name, "w+b", buffering=0)).fileno() for name in names]
            written, write_s = _together(
                [partial(append, fd, seconds / 2, max_bytes, clock) for fd in fds], clock
            )
            sizes = [os.fstat(fd).st_size for fd in fds]
            works = [
                partial(read_cold, fd, size, seconds / 2, clock) for fd, size in zip(fds, sizes, strict=True)
            ]
            read, read_s = _together(works, clock)
            return written / write_s, read / read_s
    finally:
        for name in names:
            name.unlink(missing_ok=True)


def _together(works: Sequence[Callable[[], tuple[int, float]]], clock: Clock) -> tuple[int, float]:
    """The bytes of all, each in a thread of its own, and seconds until the last has ended.
    Raises the OSError of one of them."""
    start = clock()
    done = in_threads(works)
    return sum(written for written, _ in done), max(clock() - start, 1e-9)


def in_threads(works: Sequence[Callable[[], Result]]) -> list[Result]:
    """The results of all, each in a thread of its own, in the order in which they ended. Raises the
    OSError of one of them, once all have ended."""
    done: list[Result] = []
    errors: list[OSError] = []

    def run(work: Callable[[], Result]) -> None:
        try:
            done.append(work())
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return done


def append(fd: int, seconds: float, max_bytes: int, clock: Clock) -> tuple[int, float]:
    """Bytes written and bytes/s, the fdatasync at the end included. Half of the time is left for
    that sync."""
    chunk = memoryview(os.urandom(CHUNK))  # a device that compresses gains nothing
    start = clock()
    written = 0
    while written < max_bytes and (not written or clock() - start < seconds / 2):
        written += os.pwrite(fd, chunk[: max_bytes - written], written)
    os.fdatasync(fd)
    return written, written / max(clock() - start, 1e-9)


def read_cold(fd: int, size: int, seconds: float, clock: Clock) -> tuple[int, float]:
    """Bytes and bytes/s of a read from the start, after the bytes were dropped from the page
    cache."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    buffer = bytearray(CHUNK)
    start = clock()
    position = requested = 0
    while position < size and (not position or clock() - start < seconds):
        if requested < position + WINDOW // 2:
            os.posix_fadvise(fd, requested, WINDOW, os.POSIX_FADV_WILLNEED)
            requested += WINDOW
        got = os.preadv(fd, [buffer], position)
        if not got:
            break
        position += got
    return position, position / max(clock() - start, 1e-9)


def sync_times(fd: int, seconds: float, clock: Clock) -> list[float]:
    """Seconds of each fdatasync after an append of 16 KiB."""
    record = os.urandom(SMALL)
    times: list[float] = []
    start = now = clock()
    while len(times) < FEWEST_SYNCS or (len(times) < ENOUGH_SYNCS and now - start < seconds):
        os.pwrite(fd, record, len(times) * SMALL)
        before = clock()
        os.fdatasync(fd)
        now = clock()
        times.append(now - before)
    return times
