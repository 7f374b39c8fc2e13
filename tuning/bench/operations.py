"""Operations a second of a disk: reads and writes of 4 KiB at random places, past the page cache,
by one thread and by several, as many programs of a busy host issue them."""

import mmap
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tuning.bench.disk import Clock, in_threads

BLOCK = 4096
CHUNK = 1 << 20
MAX_BYTES = 1 << 28
"""Maximum of the test file."""
THREADS = (1, 4, 16)
"""The interpreter's lock is free in each call; beyond some 60,000 operations a second it is the
limit itself."""

Operate = Callable[[int, mmap.mmap, int], object]


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """Operations a second of the number of threads that reads, or writes, were fastest with."""

    reads: float
    writes: float
    read_threads: int
    write_threads: int


def measure_operations(
    folder: Path, seconds: float, max_bytes: int, clock: Clock = time.perf_counter
) -> OperationFigures:
    """Six turns in `seconds`, on a file that is removed. Raises OSError where the file system has
    no direct I/O."""
    name = folder / f".tuning-operations-{os.getpid()}"
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        try:
            blocks = _fill(fd, max(CHUNK, min(max_bytes, MAX_BYTES))) // BLOCK
            turn_s = seconds / 2 / len(THREADS)
            reads = {each: rate(fd, blocks, each, turn_s, _read, clock) for each in THREADS}
            writes = {each: rate(fd, blocks, each, turn_s, _write, clock) for each in THREADS}
        finally:
            os.close(fd)
    finally:
        name.unlink(missing_ok=True)
    read_threads, write_threads = max(reads, key=reads.__getitem__), max(writes, key=writes.__getitem__)
    return OperationFigures(reads[read_threads], writes[write_threads], read_threads, write_threads)


def rate(fd: int, blocks: int, threads: int, seconds: float, operate: Operate, clock: Clock) -> float:
    """Operations a second of so many threads together. Raises the OSError of one of them."""
    start = clock()

    def work(number: int) -> int:
        places, count = random.Random(number), 0
        with mmap.mmap(-1, BLOCK) as buffer:  # aligned to a page, as direct I/O demands
            buffer.write(os.urandom(BLOCK))
            while not count or clock() - start < seconds:
                operate(fd, buffer, places.randrange(blocks) * BLOCK)
                count += 1
        return count

    counts = in_threads([partial(work, number) for number in range(threads)])
    return sum(counts) / max(clock() - start, 1e-9)


def _read(fd: int, buffer: mmap.mmap, place: int) -> object:
    return os.preadv(fd, [buffer], place)


def _write(fd: int, buffer: mmap.mmap, place: int) -> object:
    return os.pwritev(fd, [buffer], place)


def _fill(fd: int, size: int) -> int:
    """Write the file, so that reads reach the disk; its size."""
    with mmap.mmap(-1, CHUNK) as chunk:
        chunk.write(os.urandom(CHUNK))
        for place in range(0, size // CHUNK * CHUNK, CHUNK):
            os.pwritev(fd, [chunk], place)
    os.fdatasync(fd)
    return size // CHUNK * CHUNK
