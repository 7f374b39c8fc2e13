"""Copies bytes from a leader's segment file into a follower's log; handles the events that the copy
kernel leaves to Python.
"""

import os
import struct

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.drain import Drain, marker_of
from kbroker.io.append.rows import Batch
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.io.replication import copy_kernel as ck
from kbroker.io.replication.copy_kernel import Copied, CopyStop
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Counter
from kbroker.protocol import batch_layout

BUFFER_BYTES = 1 << 20  # replica.fetch.max.bytes; a larger batch makes it grow
HEAD = struct.Struct(">qii")  # base offset, length, leader epoch
MAX_BATCH = (1 << 31) - 1


class CopyFailed(Exception):
    """The own log could not be written. reason: the error of the file system."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class DamagedBatch(Exception):
    """The leader's file does not hold the expected batch."""


class Copier:
    """Runs in: io. Owner: the worker's Following. One buffer for all partitions."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._buffer: NDArray[np.uint8] = np.zeros(BUFFER_BYTES, np.uint8)
        self._batches: NDArray[np.int64] = Batch.table(Batch.ROWS)
        self._counters: NDArray[np.int64] = Counter.row()
        self._out: NDArray[np.int64] = Copied.row()

    def copy(self, partition: UnifiedLog, fd: int, position: int, end: int) -> int:
        """Append whole batches of file bytes [position, end), a buffer at most; returns their
        bytes, at least one batch. Raises CopyFailed, DamagedBatch, and OSError of reading."""
        try:
            partition.active.open_files()
        except OSError as error:
            raise CopyFailed(error) from error
        self._grow(fd, position)
        length = os.preadv(fd, [self._buffer[: min(len(self._buffer), end - position)].data], position)
        done = 0
        while True:
            done += self._append(partition, done, length - done)
            stop = int(self._out[Copied.STOP])
            if stop == CopyStop.END:
                if done == 0:
                    raise DamagedBatch(f"{end - position} bytes at {position} hold no whole batch")
                return done
            self._prepare(partition, stop, done)

    def _grow(self, fd: int, position: int) -> None:
        head = os.pread(fd, batch_layout.LENGTH_OVERHEAD, position)
        size = batch_layout.LENGTH_OVERHEAD + int.from_bytes(head[batch_layout.LENGTH :], "big")
        if len(self._buffer) < size <= MAX_BATCH:
            self._buffer = np.zeros(size, np.uint8)

    def _append(self, partition: UnifiedLog, start: int, length: int) -> int:
        """One kernel call; returns the bytes of whole batches that it took."""
        producers = self._drain.producers
        producers.make_room(Batch.ROWS)
        out = self._out
        ck.copy_batches(
            self._drain.env, partition.active.row, producers.rows, self._batches, self._counters, partition.slot,
            self._buffer.ctypes.data + start, length, wall_clock_ms(), out,
        )  # fmt: skip
        if out[Copied.ERROR]:
            error = int(out[Copied.ERROR])
            partition.active.stop_appends()
            raise CopyFailed(OSError(error, os.strerror(error), partition.folder))
        if out[Copied.MARKER] >= 0:
            self._finish_marker(partition, start + int(out[Copied.MARKER]), start + int(out[Copied.BYTES]))
        return int(out[Copied.BYTES])

    def _finish_marker(self, partition: UnifiedLog, start: int, end: int) -> None:
        marker = marker_of(self._buffer[start:end].tobytes())
        if marker is None:
            return  # as when the log is loaded
        try:
            partition.complete_transaction(marker)
        except OSError as error:
            raise CopyFailed(error) from error

    def _prepare(self, partition: UnifiedLog, stop: int, done: int) -> None:
        """Handle the event for which the kernel stopped."""
        try:
            if stop == CopyStop.ROLL:
                # compaction may have left a gap before the batch that is longer than a segment
                partition.roll(wall_clock_ms(), HEAD.unpack_from(self._buffer.data, done)[0])
            elif stop == CopyStop.EPOCH:
                base_offset, _, epoch = HEAD.unpack_from(self._buffer.data, done)
                if epoch >= 0:
                    partition.epochs.assign(epoch, base_offset)
                partition.active.note_copied_epoch(epoch)
            elif stop == CopyStop.CORRUPT:
                raise DamagedBatch(
                    f"the batch after {done} bytes does not begin at offset {partition.log_end}"
                )
        except OSError as error:
            raise CopyFailed(error) from error
