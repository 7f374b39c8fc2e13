"""Group commit: one sync for all appends that wait on a log, in threads beside the drain.

While a sync runs the drain goes on; whatever was appended meanwhile shares the next sync. That is what makes
durable acks cheap: their number per second is the group's size over the time of a sync. Several logs are synced at
the same time, because a journaling file system then answers all of them with one commit of its journal.
"""

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbroker.io.flush_job import FlushJob

log = logging.getLogger(__name__)

THREADS = 8


@dataclass(frozen=True, slots=True)
class Commit:
    """A sync of one slot's log in one incarnation."""

    slot: int
    generation: int
    job: FlushJob


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is on disk (errno 0), or the error of its sync, and how long it took."""

    commit: Commit
    errno: int
    nanoseconds: int


class GroupCommit:
    """Threads that run commits. Runs in: io. Owner: the IO worker.

    ``notify`` is called from a thread when results are there; ``take`` gives them to the worker. A slot has at most
    one commit under way: the owner asks again when it has taken the result.
    """

    def __init__(self, notify: Callable[[], None], clock_ns: Callable[[], int]) -> None:
        self._notify = notify
        self._clock_ns = clock_ns
        self._condition = threading.Condition()
        self._wanted: deque[Commit] = deque()
        self._results: list[Committed] = []
        self._running = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"group-commit-{n}", daemon=True) for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, commits: Iterable[Commit]) -> None:
        """Sync these."""
        with self._condition:
            self._wanted += commits
            self._condition.notify_all()

    def take(self) -> list[Committed]:
        """Results since the last call."""
        with self._condition:
            results, self._results = self._results, []
        return results

    def drain(self) -> None:
        """Wait until everything asked for has a result."""
        with self._condition:
            self._condition.wait_for(lambda: not self._wanted and not self._running)

    def close(self) -> None:
        """Finish what was asked for and end the threads."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._wanted and not self._closed:
                    self._condition.wait()
                if not self._wanted:
                    return
                commit = self._wanted.popleft()
                self._running += 1
            result = self._sync(commit)
            with self._condition:
                self._results.append(result)
                self._running -= 1
                self._condition.notify_all()
            self._notify()

    def _sync(self, commit: Commit) -> Committed:
        began = self._clock_ns()
        error = 0
        try:
            commit.job.run()
        except OSError as failure:
            error = failure.errno or errno.EIO
            log.error("sync of %s failed: %s", commit.job.folder, failure)
        return Committed(commit, error, self._clock_ns() - began)
