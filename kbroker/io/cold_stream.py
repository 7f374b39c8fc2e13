"""One reader of cold data in the IO worker: the ranges it requested, and how far ahead to read for it.

Pure but for the file: a thread of the pool calls ``pull`` until there is nothing left to do.
"""

import os
import threading
from collections import deque
from pathlib import Path

from kbroker.io.append.drain import ReadAhead

PIECE_BYTES = 1 << 20
FIRST_WINDOW_BYTES = 4 << 20
MOST_WINDOW_BYTES = 32 << 20
SUBMITTED_BYTES = 4 << 20  # asked of the disk beyond what is being waited for


class ColdStream:
    """Ranges of one segment file in the order they are wanted, and a window beyond them for a sequential reader.

    Runs in: io, its worker and one thread of the pool; everything shared is under the lock. window: bytes to read
    beyond the last wanted range, 0 for a reader that has not shown yet that it goes on where it ended.
    """

    def __init__(self, file: Path, request: ReadAhead, window: int) -> None:
        self.file = file
        self.slot = request.slot
        self.window = window
        self._lock = threading.Lock()
        self._wanted: deque[ReadAhead] = deque([request])
        self._position = self._submitted = request.position
        self._target = request.position + request.length + window
        self._ended = False

    @property
    def reach(self) -> int:
        """End of the stream: a read that starts near it is sequential."""
        return self._target

    def join(self, request: ReadAhead) -> bool:
        """Take a range in, if it lies where this stream is reading."""
        with self._lock:
            begins, ends = request.position, request.position + request.length
            near = self._position - PIECE_BYTES <= begins <= self._target
            if self._ended or not near:
                return False
            self._wanted.append(request)
            self._position = min(self._position, begins)
            self.window = grown(self.window)
            self._target = max(self._target, ends + self.window)
            return True

    def pull(self, fd: int, buffer: memoryview) -> list[ReadAhead] | None:
        """Read one piece; the ranges that are complete with it, None when the stream has ended."""
        with self._lock:
            if self._position >= self._target and not self._wanted:
                self._ended = True
                return None
            position, target = self._position, self._target
        self._submit(fd, position, target)
        piece = max(1, min(len(buffer), target - position))
        got = os.preadv(fd, [buffer[:piece]], position)
        with self._lock:
            if self._position == position:  # no range that begins earlier has come meanwhile
                self._position += got
            if not got:  # the end of the file: nothing beyond it is there to wait for
                self._target = self._position
            done = [
                each
                for each in self._wanted
                if not got or (self._position != position and each.position + each.length <= self._position)
            ]
            for each in done:
                self._wanted.remove(each)
            return done

    def _submit(self, fd: int, position: int, target: int) -> None:
        """Keep the disk busy with what comes next, while this piece is waited for."""
        until = min(target, position + PIECE_BYTES + SUBMITTED_BYTES)
        begin = max(position, self._submitted)
        if until > begin:
            os.posix_fadvise(fd, begin, until - begin, os.POSIX_FADV_WILLNEED)
            self._submitted = until

    def abandon(self) -> list[ReadAhead]:
        """The file cannot be read: give back what still waits."""
        with self._lock:
            self._ended = True
            left, self._wanted = list(self._wanted), deque()
            return left


def grown(window: int) -> int:
    """The next window of a reader that goes on and on."""
    return min(MOST_WINDOW_BYTES, max(FIRST_WINDOW_BYTES, 2 * window))
