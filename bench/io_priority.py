"""`python -m bench.io_priority [FOLDER]`: how long syncs wait on a busy disk, by the IO priority of
the thread that writes a segment, and those of another thread beside it. The cleaner writes so."""

import ctypes
import mmap
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbroker.cleaner.cleaned_segment import SYNC_FILE_RANGE, SYNC_FILE_RANGE_WRITE
from kbroker.cleaner.worker import IOPRIO_LOWEST, IOPRIO_SET

PRIORITIES = {"none": 0, "best effort 7": IOPRIO_LOWEST, "idle": 3 << 13}
READERS = 16
PIECE = 1 << 20
READ_PIECES, SEGMENT_PIECES = 512, 32
BEGIN_S = 0.1
"""Seconds between the begin of the segment and the first sync of the other thread."""


@contextmanager
def busy_disk(path: Path) -> Iterator[None]:
    """Reads that do not end, and that the page cache does not answer."""
    path.write_bytes(os.urandom(PIECE) * READ_PIECES)
    stop = threading.Event()

    def read(first: int) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer, n = mmap.mmap(-1, PIECE), first
        while not stop.is_set():
            os.preadv(fd, [buffer], n % READ_PIECES * PIECE)
            n += 1
        os.close(fd)

    threads = [threading.Thread(target=read, args=(37 * n,)) for n in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def synced_ms(path: Path, pieces: int) -> float:
    """The time to write and sync a new file, as the cleaner does."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    began = time.monotonic()
    for n in range(pieces):
        os.write(fd, bytes(PIECE))
        SYNC_FILE_RANGE(fd, n * PIECE, PIECE, SYNC_FILE_RANGE_WRITE)
    os.fsync(fd)
    took = time.monotonic() - began
    os.close(fd)
    path.unlink()
    return took * 1000


def beside(folder: Path, priority: int) -> tuple[float, float]:
    """ms of the sync of a segment by a thread of this priority, and of another thread's longest
    sync beside it."""
    found: list[float] = []

    def write() -> None:
        ctypes.CDLL(None).syscall(IOPRIO_SET[platform.machine()], 1, 0, priority)
        found.append(synced_ms(folder / "segment", SEGMENT_PIECES))

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(BEGIN_S)
    others = [synced_ms(folder / "other", 1)]
    while writer.is_alive():
        others.append(synced_ms(folder / "other", 1))
    writer.join()
    return found[0], max(others)


def main(parent: Path) -> None:
    """Print both for each priority."""
    with tempfile.TemporaryDirectory(dir=parent) as name, busy_disk(Path(name, "read")):
        for title, priority in PRIORITIES.items():
            segment, other = beside(Path(name), priority)
            print(f"{title:14} segment synced in {segment:6.0f} ms, another thread in {other:6.0f} ms")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
