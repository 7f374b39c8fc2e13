"""Appends, syncs and cold reads as kbroker does them: buffered pwrite, fdatasync, reads with a
window ahead."""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20
SMALL = 16 << 10
WINDOW = 32 << 20  # as far as kbroker reads ahead of a lagging consumer
ENOUGH_SYNCS = 1000
FEWEST_SYNCS = 5

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """Bytes/s and seconds."""

    write_rate: float
    cold_read_rate: float
    sync_p50_s: float
    sync_p99_s: float


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    rank = math.ceil(len(values) * share)
    return sorted(values)[max(rank, 1) - 1]


def measure_disk(
    folder: Path, seconds: float, most_bytes: int, clock: Clock = time.perf_counter
) -> DiskFigures:
    """Three turns of a third of `seconds` each, on files that are removed. most_bytes: of the file
    written."""
    name = folder / f".tuning-bench-{os.getpid()}"
    try:
        with open(name, "w+b", buffering=0) as file:
            written, write_rate = append(file.fileno(), seconds / 3, most_bytes, clock)
            cold_read_rate = read_cold(file.fileno(), written, seconds / 3, clock)
            os.ftruncate(file.fileno(), 0)
            syncs = sync_times(file.fileno(), seconds / 3, clock)
    finally:
        name.unlink(missing_ok=True)
    return DiskFigures(write_rate, cold_read_rate, percentile(syncs, 0.5), percentile(syncs, 0.99))


def append(fd: int, seconds: float, most_bytes: int, clock: Clock) -> tuple[int, float]:
    """Bytes written and bytes/s, the fdatasync at the end included. Half of the time is left for
    that sync."""
    chunk = os.urandom(CHUNK)  # a device that compresses gains nothing
    start = clock()
    written = 0
    while written < most_bytes and (not written or clock() - start < seconds / 2):
        written += os.pwrite(fd, chunk, written)
    os.fdatasync(fd)
    return written, written / max(clock() - start, 1e-9)


def read_cold(fd: int, size: int, seconds: float, clock: Clock) -> float:
    """Bytes/s of a read from the start, after the bytes were dropped from the page cache."""
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
    return position / max(clock() - start, 1e-9)


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
