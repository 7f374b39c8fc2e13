"""Reads cold ranges into the page cache, in threads of the IO worker, so that no network process waits for a
disk.
"""

import logging
import os
import resource
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbroker.io.append.drain import ReadAhead
from kbroker.io.cold_stream import PIECE_BYTES, ColdStream, grown
from kbroker.ipc.scheduling import ask_for_slice

log = logging.getLogger(__name__)

THREADS = 4
SLICE_US = 3000  # they copy megabytes and nobody waits for microseconds of theirs: appends go first
SECTOR = 512
REMEMBERED = 256  # ended streams: a read that starts at the end of one is sequential


class ReadAheadPool:
    """Reads ranges into nothing: what counts is that the page cache holds them afterwards.

    A reader that goes on where its last range ended gets a growing window read ahead of it, so that it waits for the
    disk once in many fetches. Runs in: io. Owner: the IO worker. ``notify`` is called from a thread when a range is
    done; ``take`` gives the done ones to the worker, failed ones too (the reader will see the error itself), and
    ``take_from_disk`` what the disk had to give for them and for the windows.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._done: deque[ReadAhead] = deque()
        self._failed: deque[tuple[int, OSError]] = deque()
        self._from_disk: deque[tuple[int, int]] = deque()
        self._executor = ThreadPoolExecutor(THREADS, "read-ahead", ask_for_slice, (SLICE_US,))
        self._scratch = threading.local()
        self._streams: OrderedDict[Path, ColdStream] = OrderedDict()  # the last one of each file
        self._closing = False

    def ask(self, request: ReadAhead, file: Path) -> None:
        """Bring a range of a segment file into the page cache."""
        last = self._streams.get(file)
        if last is not None and last.join(request):
            return
        follows = last is not None and 0 <= last.reach - request.position <= PIECE_BYTES
        window = grown(last.window) if last is not None and follows else 0
        stream = self._streams[file] = ColdStream(file, request, window)
        self._streams.move_to_end(file)
        if len(self._streams) > REMEMBERED:
            self._streams.popitem(last=False)
        self._executor.submit(self._read, stream)

    def take(self) -> list[ReadAhead]:
        """Results since the last call."""
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done

    def take_failed(self) -> list[tuple[int, OSError]]:
        """Slots whose segment could not be read since the last call, and why."""
        failed = []
        while self._failed:
            failed.append(self._failed.popleft())
        return failed

    def take_from_disk(self) -> list[tuple[int, int]]:
        """(slot, bytes that the disk gave) since the last call."""
        counts = []
        while self._from_disk:
            counts.append(self._from_disk.popleft())
        return counts

    def close(self) -> None:
        """Drop what has not begun, and windows."""
        self._closing = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _read(self, stream: ColdStream) -> None:
        try:
            fd = os.open(stream.file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                began = disk_bytes()
                while not self._closing and (done := stream.pull(fd, self._buffer())) is not None:
                    began = self._count(stream.slot, began)
                    self._finish(done)
            finally:
                os.close(fd)
        except OSError as error:
            log.warning("read-ahead of %s failed: %s", stream.file, error)
            left = stream.abandon()
            self._failed.extend((request.slot, error) for request in left[:1])
            self._finish(left)

    def _count(self, slot: int, began: int) -> int:
        """Before the range is answered, so that a reader's bytes are counted when it has them."""
        now = disk_bytes()
        if now > began:
            self._from_disk.append((slot, now - began))
            self._notify()
        return now

    def _finish(self, done: list[ReadAhead]) -> None:
        if done:
            self._done.extend(done)
            self._notify()

    def _buffer(self) -> memoryview:
        """The calling thread's own."""
        buffer: memoryview | None = getattr(self._scratch, "buffer", None)
        if buffer is None:
            buffer = self._scratch.buffer = memoryview(bytearray(PIECE_BYTES))
        return buffer


def disk_bytes() -> int:
    """What the calling thread has made the disk give, as in /proc/PID/io: the kernel's own read-ahead, too."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock * SECTOR
