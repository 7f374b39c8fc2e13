"""Group commit: threads beside the drain make one sync for all appends that wait on a log.

The drain continues during a sync, and all records that are appended meanwhile share the next sync.
So the number of durable acks per second is the size of a group divided by the time of a sync.
Several logs are synced at the same time: a journaling file system then serves all of them with one
commit of its journal. The drain kernel requests most syncs itself (group_commit_kernel.py); this
module has the threads and the other syncs.
"""

import errno
import os
import select
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from msgspec import Struct

from kbroker.io.append.group_commit_kernel import serve_syncs
from kbroker.io.append.rows import SyncJob
from kbroker.io.partition.log_durability import FlushJob

THREADS = 8
WHOLE_THREADS = 4
RECORD = struct.Struct(f"={SyncJob.WORDS}q")


class LogSync(Struct, frozen=True):
    """A sync of one slot's log in one incarnation."""

    slot: int
    generation: int
    job: FlushJob


class LogSyncResult(Struct, frozen=True):
    """A finished sync: errno 0 when the log is on disk, and how long it took."""

    sync: LogSync
    errno: int
    nanoseconds: int


class GroupCommit:
    """Threads that run syncs. Runs in: io. Owner: Durability, its only caller. Not
    thread-safe. A sync of only the active segment is sent through a pipe to compiled threads; a
    sync that includes closed segments runs in a Python thread. Results arrive through a pipe,
    whose reader passes those with a token of ``ask`` to ``result``. A slot has at most one sync
    in progress: the owner starts the next one when it has taken the result.
    """

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self._pending: dict[int, LogSync] = {}
        self._unsent: deque[int] = deque()
        self._next_token = 0
        self._jobs_read, self._jobs = os.pipe2(os.O_CLOEXEC)
        self._results, self._results_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._jobs, False)
        os.set_blocking(self._results, False)
        self._whole: ThreadPoolExecutor | None = None
        self._threads: list[threading.Thread] = []

    def fileno(self) -> int:
        """Readable when there are results, each a SyncJob."""
        return self._results

    @property
    def jobs(self) -> int:
        """Descriptor to which the kernel writes plain syncs; -1 while no thread serves them."""
        return self._jobs if self._threads else -1

    def ask(self, syncs: Iterable[LogSync]) -> None:
        """Begin syncs."""
        for sync in syncs:
            token = self._next_token
            self._next_token += 1
            self._pending[token] = sync
            if sync.job.active >= 0 and not self._threads:
                self._start_threads()
            if sync.job.only_active:
                self._unsent.append(token)
            else:
                self._run_whole(token, sync)
        self._send()

    def _send(self) -> None:
        """Pass syncs to the threads until the pipe is full; the others follow when results have
        arrived."""
        while self._unsent:
            token = self._unsent[0]
            try:
                os.write(self._jobs, RECORD.pack(token, self._pending[token].job.active, 0))
            except BlockingIOError:
                return
            self._unsent.popleft()

    def result(self, token: int, error: int, nanoseconds: int) -> LogSyncResult:
        """The result of a sync, from a record of the pipe."""
        sync = self._pending.pop(token)
        sync.job.close()
        self._send()
        return LogSyncResult(sync, error, nanoseconds)

    def wait(self) -> None:
        """Wait until there are results. The caller knows that a sync is in progress."""
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        poll.poll()

    def close(self) -> None:
        """End the threads after their current syncs. The owner has already taken the results that
        it needs."""
        if self._whole is not None:
            self._whole.shutdown()
        os.set_blocking(self._jobs, True)
        for _ in self._threads:
            os.write(self._jobs, RECORD.pack(0, SyncJob.END, 0))
        for thread in self._threads:
            thread.join()
        for fd in (self._jobs_read, self._jobs, self._results, self._results_write):
            os.close(fd)

    # --- threads -----------------------------------------------------------------------------------

    def _start_threads(self) -> None:
        """Start the threads, at the first sync: most brokers never need them."""
        self._threads = [
            threading.Thread(target=self._serve, name=f"group-commit-{n}", daemon=True)
            for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self) -> None:
        scratch = np.zeros(64, np.uint8)
        serve_syncs(self._jobs_read, self._results_write, scratch.ctypes.data)

    def _run_whole(self, token: int, sync: LogSync) -> None:
        if self._whole is None:
            self._whole = ThreadPoolExecutor(WHOLE_THREADS, "sync")
        self._whole.submit(self._sync, token, sync.job)

    def _sync(self, token: int, job: FlushJob) -> None:
        began = self._clock_ns()
        error = 0
        try:
            job.run()
        except OSError as failure:
            error = failure.errno or errno.EIO
        os.write(self._results_write, RECORD.pack(token, error, self._clock_ns() - began))
