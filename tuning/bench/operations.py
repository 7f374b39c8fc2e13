"""Operations a second of a disk: reads and writes of 4 KiB at random places, past the page cache,
by one thread and by several, as many programs of a busy host issue them."""

import mmap
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4096
CHUNK = 1 << 20
MAX_BYTES = 1 << 28
"""Of the test file."""
THREADS = (1, 4, 16)
"""The interpreter's lock is free in each call; beyond some 60,000 operations a second it is the
limit itself."""

Clock = Callable[[], float]
Operate = Callable[[int, mmap.mmap, int], object]


@dataclass(frozen=True, slots=True)
class OperationFigures:
    """Operations a second of the number of threads that reads, or writes, were fastest with."""

    reads: float
    writes: float
    read_threads: int
    write_threads: int


def measure_operations(
    folder: Path, seconds: float, most_bytes: int, clock: Clock = time.perf_counter
) -> OperationFigures:
    """Six turns in `seconds`, on a file that is removed. Raises OSError where the file system has
    no direct I/O."""
    name = folder / f".tuning-operations-{os.getpid()}"
    try:
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        try:
            blocks = _fill(fd, max(CHUNK, min(most_bytes, MAX_BYTES))) // BLOCK
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
    counts = [0] * threads
    errors: list[OSError] = []
    start = clock()

    def work(number: int) -> None:
        places = random.Random(number)
        with mmap.mmap(-1, BLOCK) as buffer:  # aligned to a page, as direct I/O demands
            buffer.write(os.urandom(BLOCK))
            try:
                while not counts[number] or clock() - start < seconds:
                    operate(fd, buffer, places.randrange(blocks) * BLOCK)
                    counts[number] += 1
            except OSError as error:
                errors.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
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
