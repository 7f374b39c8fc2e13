"""Cold ranges into the page cache, by threads of the IO worker, so that no network process waits for a disk."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbroker.io.drain import ReadAhead

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
THREADS = 4


class ReadAheadPool:
    """Reads ranges into nothing: what counts is that the page cache holds them afterwards.

    Runs in: io. Owner: the IO worker. ``notify`` is called from a thread when a range is done; ``take`` gives
    the done ones to the worker, failed ones too (the reader will see the error itself).
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._done: deque[ReadAhead] = deque()
        self._failed: deque[tuple[int, OSError]] = deque()
        self._executor = ThreadPoolExecutor(THREADS, "read-ahead")
        self._scratch = threading.local()

    def ask(self, request: ReadAhead, file: Path) -> None:
        """Bring a range of a segment file into the page cache."""
        self._executor.submit(self._read, request, file)

    def take(self) -> list[ReadAhead]:
        """What is done since the last call."""
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

    def close(self) -> None:
        """Drop what has not begun."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _read(self, request: ReadAhead, file: Path) -> None:
        try:
            self._pull(file, request.position, request.length)
        except OSError as error:
            log.warning("read-ahead of %s failed: %s", file, error)
            self._failed.append((request.slot, error))
        self._done.append(request)
        self._notify()

    def _pull(self, file: Path, position: int, length: int) -> None:
        buffer: bytearray | None = getattr(self._scratch, "buffer", None)
        if buffer is None:
            buffer = self._scratch.buffer = bytearray(PIECE_BYTES)
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)
            end = position + length
            while position < end:
                piece = min(PIECE_BYTES, end - position)
                got = os.preadv(fd, [memoryview(buffer)[:piece]], position)
                if got == 0:
                    return
                position += got
        finally:
            os.close(fd)
