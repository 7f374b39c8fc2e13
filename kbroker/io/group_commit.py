"""Group commit: one fdatasync for all appends that wait on a log, in a thread beside the drain.

While a sync runs the drain goes on; whatever was appended meanwhile shares the next sync. That is what makes
durable acks cheap: their number per second is the group's size over the time of a sync.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlushMark:
    """How far a slot's log reached when the sync was asked for. fd: a duplicate that the commit closes, so that a
    roll meanwhile does no harm. records: unflushed records that the sync covers."""

    slot: int
    generation: int
    fd: int
    next_offset: int
    segment_base: int
    position: int
    records: int


@dataclass(frozen=True, slots=True)
class Flushed:
    """A mark that is on disk (errno 0), or the error of its fdatasync."""

    mark: FlushMark
    errno: int
    nanoseconds: int


class GroupCommit:
    """A thread that syncs marks. Runs in: io. Owner: the IO worker.

    ``notify`` is called from the thread when results are there; ``take`` gives them to the worker.
    """

    def __init__(self, notify: Callable[[], None], clock_ns: Callable[[], int]) -> None:
        self._notify = notify
        self._clock_ns = clock_ns
        self._condition = threading.Condition()
        self._wanted: dict[int, FlushMark] = {}
        self._results: list[Flushed] = []
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    def ask(self, marks: Iterable[FlushMark]) -> None:
        """Sync these; a mark replaces an older one of the same slot that has not been started."""
        with self._condition:
            for mark in marks:
                older = self._wanted.get(mark.slot)
                if older is not None:
                    os.close(older.fd)
                self._wanted[mark.slot] = mark
            self._condition.notify()

    def take(self) -> list[Flushed]:
        """Results since the last call."""
        with self._condition:
            results, self._results = self._results, []
        return results

    def close(self) -> None:
        """Finish what was asked for and end the thread."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._wanted and not self._closed:
                    self._condition.wait()
                if not self._wanted:
                    return
                marks, self._wanted = list(self._wanted.values()), {}
            results = [self._sync(mark) for mark in marks]
            with self._condition:
                self._results += results
            self._notify()

    def _sync(self, mark: FlushMark) -> Flushed:
        began = self._clock_ns()
        error = 0
        try:
            os.fdatasync(mark.fd)
        except OSError as failure:
            error = failure.errno or 5
            log.error("fdatasync of slot %d failed: %s", mark.slot, failure)
        os.close(mark.fd)
        return Flushed(mark, error, self._clock_ns() - began)
