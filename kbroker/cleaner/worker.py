"""The cleaner process: threads that each clean the dirtiest log, repeatedly, at low priority.

Runs in: cleaner. It may be killed at any time: the IO workers own the logs, and unfinished files
are removed later.
"""

import ctypes
import logging
import os
import platform
import select
import threading
import time
from contextlib import suppress

from kbroker.cleaner.cleaner_state import CleanerState, MemorySizes
from kbroker.cleaner.control_link import ControlLink
from kbroker.cleaner.log_cleaner import Cleaned, LogChanged, LogCleaner, MapTooSmall
from kbroker.cleaner.offset_map import OffsetMap
from kbroker.ipc.child import ChildContext, on_stop
from kbroker.ipc.cleaning_messages import (
    BeginCleaning,
    BrokerSettings,
    CleanableLog,
    CleanableLogs,
    CleaningJob,
    EndCleaning,
)
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.log.errors import CorruptLog
from kbroker.metrics.slots import Slots
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

NICENESS = 10
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
IOPRIO_LOWEST = (2 << 13) | 7  # of the class best effort, and never idle: see `lower_priority`
JOIN_S = 10.0
MIN_CALL_INTERVAL_S = 0.01


class Stopped(Exception):
    """The process has been asked to end."""


class CleanerThread(threading.Thread):
    """Cleans while any log is due, then backs off. Owner: main."""

    def __init__(self, number: int, context: ChildContext, state: CleanerState) -> None:
        super().__init__(name=f"cleaner-{number}", daemon=True)
        self._number = number
        self._workers = context.shared.sizes.workers
        self._state = state
        self._dir_errors = LogDirErrors(context.config.log_dirs, context.shared)
        self._control = ControlLink(context.control_sockets.connector, state.stop)
        self._cleaner: LogCleaner | None = None
        self._sizes: MemorySizes | None = None
        self._worker = 0  # of the log that is being cleaned
        self._checked = 0  # logs in the last check

    def run(self) -> None:
        lower_priority()
        state = self._state
        while not state.stop.is_set() and self._number < state.threads:
            self._checked = 0
            try:
                busy = self._clean_filthiest()
            except Stopped:
                break
            except (LinkClosed, KafkaError) as error:
                log.debug("nothing cleaned: %s", error)
                busy = False
            if not busy:
                state.back_off(self._checked)
        self._control.close()

    def _clean_filthiest(self) -> bool:
        """Clean the dirtiest log; returns whether a log was cleaned."""
        found: list[tuple[int, CleanableLog]] = []
        complete = True
        for worker in range(self._workers):
            try:
                found += [(worker, one) for one in self._control.ask(worker, CleanableLogs())]
            except (KafkaError, LinkClosed):  # it is restarting, or its disk hangs: others clean
                complete = False
        self._checked = len(found)
        taken = self._state.take_filthiest(found, complete)
        if taken is None:
            return False
        self._worker, one = taken
        began = time.monotonic_ns()
        cleaned = None
        try:
            cleaned = self._clean(one)
        finally:
            self._state.done(one, cleaned, time.monotonic_ns() - began)
        return cleaned is not None

    def _clean(self, one: CleanableLog) -> Cleaned | None:
        job: CleaningJob | None = self._control.ask(self._worker, BeginCleaning(one.slot, one.generation))
        if job is None:
            return None
        began = time.monotonic()
        try:
            cleaned = self._log_cleaner().clean(job, wall_clock_ms())
        except LogChanged:
            log.info("%s changed during its cleaning and will be cleaned again later", job.folder)
            return None
        except LinkClosed:
            raise
        except (CorruptLog, MapTooSmall, OSError) as error:
            self._failed(one, job, error)
            return None
        self._control.ask(self._worker, EndCleaning(one.slot, one.generation, cleaned.end))
        _log_result(job, cleaned, time.monotonic() - began)
        return cleaned

    def _failed(self, one: CleanableLog, job: CleaningJob, error: Exception) -> None:
        """A cleaning has failed. A damaged log is not cleaned again. If its segments were truncated
        or deleted while they were read, nothing is wrong. Raises KafkaError when the log is
        deleted."""
        if isinstance(error, CorruptLog | FileNotFoundError) and self._has_changed(one, job):
            log.info("%s changed during its cleaning: %s", job.folder, error)
        elif isinstance(error, OSError):
            log.warning("%s could not be cleaned: %s", job.folder, error)
            self._dir_errors.report(job.folder, error)
            self._state.failed(one, for_good=False)
        else:
            log.warning("%s cannot be cleaned and stays unchanged: %s", job.folder, error)
            self._state.failed(one, for_good=True)

    def _has_changed(self, one: CleanableLog, job: CleaningJob) -> bool:
        """Whether a log no longer has the segments of a job, or is not to be cleaned any more."""
        again: CleaningJob | None = self._control.ask(self._worker, BeginCleaning(one.slot, one.generation))
        return again is None or again.segments[: len(job.segments)] != job.segments

    def _log_cleaner(self) -> LogCleaner:
        """This thread's cleaner, replaced when its settings have changed."""
        sizes = self._state.sizes
        if self._cleaner is None or self._sizes != sizes:
            self._cleaner = LogCleaner(
                OffsetMap(sizes.map_bytes, sizes.load_factor),
                sizes.buffer_bytes,
                self._state.throttle,
                lambda swap: bool(self._control.ask(self._worker, swap)),
                self._check,
            )
            self._sizes = sizes
        return self._cleaner

    def _check(self, _: str) -> None:
        crash_point("compaction: step of the cleaner")
        if self._state.stop.is_set():
            raise Stopped


def lower_priority() -> None:
    """Give the calling thread a low IO priority and a low CPU priority; Linux has both for each
    thread.

    Not the class idle: mq-deadline lets its requests wait for up to ten seconds while a disk is
    busy, and the syncs of other threads wait with them, because a journal commit of ext4 waits for
    the data of all new files."""
    number = IOPRIO_SET.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None, use_errno=True).syscall(number, 1, 0, IOPRIO_LOWEST)
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def main(context: ChildContext) -> None:
    """Entry of the role "cleaner": serve until the parent asks for a stop."""
    state = CleanerState(context.config, Slots(context.shared.metrics[context.process]))
    event_fd = context.shared.cleaner_event_fd

    def stop(*_: object) -> None:
        state.stop.set()
        os.eventfd_write(event_fd, 1)

    on_stop(stop)
    lower_priority()
    context.shared.processes[context.process, ProcessLine.READY] = context.epoch
    control = ControlLink(context.control_sockets.connector, state.stop)
    threads: dict[int, CleanerThread] = {}
    while not state.stop.is_set():
        with suppress(LinkClosed, KafkaError):
            state.configure(control.call(BrokerSettings()))
        for number in range(state.threads):
            if number not in threads or not threads[number].is_alive():
                threads[number] = CleanerThread(number, context, state)
                threads[number].start()
        if _called(event_fd, min(1.0, state.config.get_int("log.cleaner.backoff.ms") / 1000) or 0.01):
            state.wake_threads()
            state.stop.wait(MIN_CALL_INTERVAL_S)
    for thread in threads.values():
        thread.join(JOIN_S)


def _called(event_fd: int, seconds: float) -> bool:
    """Wait for a call of an IO worker; returns whether it called."""
    poll = select.poll()
    poll.register(event_fd, select.POLLIN)
    if not poll.poll(seconds * 1000):
        return False
    os.eventfd_read(event_fd)
    return True


def _log_result(job: CleaningJob, cleaned: Cleaned, seconds: float) -> None:
    read = cleaned.map_bytes + cleaned.bytes_read
    log.info(
        "%s: cleaned offsets %d to %d in %.2f s: %.1f MB read (%.1f MB/s), %d of %d records kept, %d segments written",
        *(job.folder, job.first_dirty, cleaned.end, seconds, read / 1e6, read / 1e6 / max(seconds, 1e-9)),
        *(cleaned.records_kept, cleaned.records_read, cleaned.swaps),
    )
    if cleaned.without_key:
        log.warning("%s: %d records without a key were removed", job.folder, cleaned.without_key)
