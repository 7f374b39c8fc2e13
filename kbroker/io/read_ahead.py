"""Reads cold ranges into the page cache, in threads of the IO worker, so that network processes do
not wait for a disk.
"""

import logging
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kbroker.io.append.drain import ReadAhead
from kbroker.ipc.scheduling import ask_for_slice
from kbroker.log.cachestat import thread_disk_bytes

log = logging.getLogger(__name__)

THREADS = 4
SLICE_US = 3000  # they copy megabytes, and microseconds do not matter to them: appends have priority
REMEMBERED = 256  # ended streams: a read that starts at the end of one is sequential
PIECE_BYTES = 1 << 20
FIRST_WINDOW_BYTES = 4 << 20
MAX_WINDOW_BYTES = 32 << 20
CHECK_BYTES = 128 << 10  # the step, in bytes, at which a piece is sampled to wait for it
SUBMITTED_BYTES = 2 << 20  # bytes requested from the disk ahead of the piece that is waited for


class ColdStream:
    """Requested ranges of one segment file, in order, and a window beyond them for a sequential
    reader. Runs in: io, in its worker and one thread of the pool; all shared state is under the
    lock. window: bytes to read beyond the last requested range, 0 until the reader has continued at
    the end of its last range.
    """

    def __init__(self, file: Path, request: ReadAhead, window: int) -> None:
        self.file = file
        self.slot = request.slot
        self.window = window
        self._lock = threading.Lock()
        self._requests: deque[ReadAhead] = deque([request])
        self._position = self._submitted = request.position
        self._target = request.position + request.length + window
        self._ended = False

    @property
    def reach(self) -> int:
        """The end of the stream; a read that starts near it is sequential."""
        return self._target

    def join(self, request: ReadAhead) -> bool:
        """Add a range near the stream's position; returns whether it was near."""
        with self._lock:
            begins, ends = request.position, request.position + request.length
            near = self._position - PIECE_BYTES <= begins <= self._target
            if self._ended or not near:
                return False
            self._requests.append(request)
            self._position = min(self._position, begins)
            self._submitted = min(self._submitted, begins)
            self.window = grown(self.window)
            self._target = max(self._target, ends + self.window)
            return True

    def pull(self, fd: int, buffer: memoryview) -> list[ReadAhead] | None:
        """Read one piece; returns the ranges that it completes, None if the stream has ended."""
        with self._lock:
            if self._position >= self._target and not self._requests:
                self._ended = True
                return None
            position, target = self._position, self._target
        self._submit(fd, position, target)
        got = _await(fd, position, buffer[: max(1, min(len(buffer), target - position))])
        with self._lock:
            if self._position == position:  # no earlier range was requested meanwhile
                self._position += got
            if not got:  # the end of the file: there is nothing more to wait for
                self._target = self._position
            done = [
                each
                for each in self._requests
                if not got or (self._position != position and each.position + each.length <= self._position)
            ]
            for each in done:
                self._requests.remove(each)
            return done

    def _submit(self, fd: int, position: int, target: int) -> None:
        """Request the next pieces from the disk while this piece is waited for."""
        until = min(target, position + PIECE_BYTES + SUBMITTED_BYTES)
        begin = max(position, self._submitted)
        if until > begin:
            os.posix_fadvise(fd, begin, until - begin, os.POSIX_FADV_WILLNEED)
            self._submitted = until

    def abandon(self) -> list[ReadAhead]:
        """Give up an unreadable file; returns the ranges that still wait."""
        with self._lock:
            self._ended = True
            left, self._requests = list(self._requests), deque()
            return left


class ReadAheadPool:
    """Reads ranges into the page cache and drops the bytes. A reader that continues at the end of
    its last range gets a growing window of read-ahead, so that few of its fetches wait for the
    disk. Runs in: io. Owner: HeldEntries. ``notify`` is called from a thread when a range is
    done. ``take`` returns the finished ranges, including failed ones (the reader will get the error
    itself); ``take_from_disk`` returns the bytes that were read from disk for them and for the
    windows.
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
        """Ranges that were finished since the last call."""
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
        """(slot, bytes read from disk) since the last call."""
        counts = []
        while self._from_disk:
            counts.append(self._from_disk.popleft())
        return counts

    def close(self) -> None:
        """Drop the ranges whose reads have not begun, and the windows."""
        self._closing = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _read(self, stream: ColdStream) -> None:
        try:
            fd = os.open(stream.file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                began = thread_disk_bytes()
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
        """Count bytes before the range is reported as done, so that a reader's bytes are counted
        when it gets them."""
        now = thread_disk_bytes()
        if now > began:
            self._from_disk.append((slot, now - began))
            self._notify()
        return now

    def _finish(self, done: list[ReadAhead]) -> None:
        if done:
            self._done.extend(done)
            self._notify()

    def _buffer(self) -> memoryview:
        """The calling thread's buffer."""
        buffer: memoryview | None = getattr(self._scratch, "buffer", None)
        if buffer is None:
            buffer = self._scratch.buffer = memoryview(bytearray(PIECE_BYTES))
        return buffer


def _await(fd: int, position: int, piece: memoryview) -> int:
    """Wait until a requested piece is in the page cache; returns its bytes, fewer at the end of the
    file. If one byte is readable, the disk has usually delivered the bytes before it. Reading all
    of a large piece would copy it needlessly; if the disk delivers out of order, the sender waits
    for the rest.
    """
    if len(piece) == PIECE_BYTES:
        for at in range(position + CHECK_BYTES - 1, position + PIECE_BYTES, CHECK_BYTES):
            if not os.preadv(fd, [piece[:1]], at):
                break
        else:
            return PIECE_BYTES
    return os.preadv(fd, [piece], position)


def grown(window: int) -> int:
    """The next, larger window of a sequential reader."""
    return min(MAX_WINDOW_BYTES, max(FIRST_WINDOW_BYTES, 2 * window))
