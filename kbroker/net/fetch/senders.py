"""Threads that send fetch answers with large file ranges (outbox_kernel.py), and the outboxes
themselves.

Runs in: network. Owner: the process.
"""

import os
import socket
import threading
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.scheduling import ask_for_slice
from kbroker.net.fetch.outbox_kernel import SCRATCH_BYTES, serve_outboxes
from kbroker.net.network_tables import NetworkTables, free_list
from kbroker.net.rows import Box, BoxPart, Context

THREADS = 3
"""Sending threads. While two of them wait for disks, the third serves other readers; and fetches of
1 MiB over 8 connections on two cores move 6.2, 6.6, 7.6 and 7.6 GB/s with 1, 2, 3 and 4."""
SENDER_MIN_BYTES = 256 << 10
SLICE_US = 3000  # bulk work: the thread that answers small requests runs first

WAIT_MS = 2
"""Maximum wait for a full socket. A client that reads empties a third of its buffer in less. A
client that does not read delays no others: an outbox without a sender ends the wait."""


class Senders:
    """The outboxes, and the threads from ``start`` to ``stop``; before and after it no outbox is
    lent."""

    def __init__(self, tables: NetworkTables) -> None:
        self.boxes: NDArray[np.int64] = Box.table(Box.ROWS)
        self._back = np.zeros(Box.BACK_BYTES, np.uint8)
        self._last = Box.row()
        self._last[Box.SOCKET] = -1
        self._tables = tables
        self._closing: dict[int, int] = {}  # descriptors by row
        self._threads: list[threading.Thread] = []
        self._jobs_read, self._jobs = os.pipe2(os.O_CLOEXEC)
        self._sent, self._sent_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._jobs, False)
        os.set_blocking(self._sent, False)
        free_list(self.boxes, Box.FREE)
        words = tables.words
        words[Context.BOXES] = self.boxes.ctypes.data
        words[Context.BACK] = self._back.ctypes.data
        words[Context.JOBS] = self._jobs
        words[Context.SENT] = self._sent
        words[Context.SENDER_MIN_BYTES] = np.iinfo(np.int64).max

    def fileno(self) -> int:
        """Readable when senders have returned outboxes."""
        return self._sent

    def start(self) -> None:
        """Answers of SENDER_MIN_BYTES go by the threads from now on."""
        self._threads = [
            threading.Thread(target=self._serve, name=f"sender-{n}", daemon=True) for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()
        self._tables.words[Context.SENDER_MIN_BYTES] = SENDER_MIN_BYTES

    def stop(self) -> None:
        """End the threads, which finish what they were given."""
        self._tables.words[Context.SENDER_MIN_BYTES] = np.iinfo(np.int64).max
        os.set_blocking(self._jobs, True)
        for _ in self._threads:
            os.write(self._jobs, int(self._last.ctypes.data).to_bytes(8, "little"))
        for thread in self._threads:
            thread.join()
        for fd in (self._jobs_read, self._jobs, self._sent, self._sent_write):
            os.close(fd)

    def used(self) -> int:
        """Outboxes that hold an answer."""
        return int(np.count_nonzero(self.boxes[:, Box.COUNT]))

    def files(self) -> set[int]:
        """Descriptors that outboxes still send from."""
        used = self.boxes[self.boxes[:, Box.COUNT] > 0]
        found: set[int] = set()
        for box in used:
            end = Box.PARTS + int(box[Box.COUNT]) * BoxPart.WORDS
            found.update(box[Box.PARTS + BoxPart.FILE : end : BoxPart.WORDS].tolist())
        return found

    def close_later(self, row: int, fd: int) -> None:
        """Close a connection that is lent once it is back: a sender may be in the middle of a
        system call with the descriptor, whose number must not become another's."""
        self._closing[row] = fd
        self._tables.epoll.unregister(fd)
        same = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=fd)  # takes no further descriptor
        with suppress(OSError):
            same.shutdown(socket.SHUT_RDWR)
        same.detach()

    def on_returned(self, row: int, *_: int) -> None:
        """A connection of ``close_later`` is back."""
        os.close(self._closing.pop(row))
        self._tables.give_row(row)

    def _serve(self) -> None:
        ask_for_slice(SLICE_US)
        scratch = np.zeros(SCRATCH_BYTES // 8, np.int64)
        serve_outboxes(self._jobs_read, self._sent_write, WAIT_MS, int(scratch.ctypes.data))
