"""Reading logs from the control process, on separate threads: its loop never waits for a disk.

Requests that arrive while a thread reads are read in one go and answered in one go: one loop turn
for many. Searches in records have a thread of their own: a client may ask for many, and each may
decompress a gigabyte, for which coordinators and share groups cannot wait. There the requests take
turns: one search of each. Each log dir has its own threads: a disk that hangs holds up no reads of
others.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.turns import Turns
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles, default_capacity
from kbroker.log.reader import LogReader
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

T = TypeVar("T")
OnAnswer = Callable[[Any], None]
"""Called with the result, or the KafkaError."""
Job = tuple[Callable[[], Any], OnAnswer]
MAX_READERS = 1024
SEARCHED_FILES = 1024
TOGETHER = 16
"""The maximum of results delivered in one loop turn."""
DELIVER_AFTER_S = 0.001
"""Seconds after which results no longer wait for others."""
FORGET_S = 1.0
"""Maximum time that a deletion waits for earlier steps: other changes of topics wait for it."""
CHECK_S = 60.0
"""Seconds until the open files that have been deleted meanwhile are closed."""


class LogReadings:
    """The LogReading of each log dir. Runs in: control. Owner: the Broker. dirs: the number of log
    dirs, which share the descriptors."""

    def __init__(self, dir_errors: LogDirErrors, dirs: int) -> None:
        self._dir_errors = dir_errors
        self._dirs = dirs
        self._readings: dict[str, LogReading] = {}

    def _of(self, folder: str) -> "LogReading":
        log_dir = files.log_dir_of(folder)
        found = self._readings.get(log_dir)
        if found is None:
            found = self._readings[log_dir] = LogReading(self._dir_errors, self._dirs)
        return found

    async def read(self, folder: str, step: Callable[[LogReader], T]) -> T:
        """As `LogReading.read`."""
        return await self._of(folder).read(folder, step)

    def search(
        self, folder: str, step: Callable[[LogReader], Any], on_answer: OnAnswer, request: object = None
    ) -> None:
        """As `LogReading.search`: requests take turns in each log dir."""
        self._of(folder).search(folder, step, on_answer, request)

    async def find(self, folder: str, step: Callable[[LogReader], T]) -> T:
        """As `LogReading.find`."""
        return await self._of(folder).find(folder, step)

    async def forget(self, folders: Iterable[str]) -> None:
        """As `LogReading.forget`."""
        by_dir: dict[str, list[str]] = {}
        for folder in folders:
            by_dir.setdefault(files.log_dir_of(folder), []).append(folder)
        waits = [found.forget(each) for path, each in by_dir.items() if (found := self._readings.get(path))]
        await asyncio.gather(*waits)

    def close(self) -> None:
        """Finish the pending reads."""
        for reading in self._readings.values():
            reading.close()


class LogReading:
    """Reads and searches in one log dir. Runs in: control, with a thread for each. Owner:
    LogReadings. share: of the descriptors that one of so many log dirs may use."""

    def __init__(self, dir_errors: LogDirErrors, share: int = 1) -> None:
        self._reads = _Reading("log-reader", dir_errors, OpenFiles(max(1, default_capacity() // share)))
        self._searches = _Reading("log-searcher", dir_errors, OpenFiles(max(1, SEARCHED_FILES // share)))

    async def read(self, folder: str, step: Callable[[LogReader], T]) -> T:
        """The result of a step with the folder's reader. Raises KafkaError: KAFKA_STORAGE_ERROR for
        an unreadable log."""
        found: T = await _result(partial(self._reads.ask, folder, step))
        return found

    def search(
        self, folder: str, step: Callable[[LogReader], Any], on_answer: OnAnswer, request: object = None
    ) -> None:
        """As `find`, with a callback. request: searches with the same one take turns with all
        others; None: a request of one search."""
        self._searches.ask(folder, step, on_answer, request)

    async def find(self, folder: str, step: Callable[[LogReader], T]) -> T:
        """As `read`, for a step that decompresses batches or reads their records."""
        found: T = await _result(partial(self._searches.ask, folder, step))
        return found

    async def forget(self, folders: list[str]) -> None:
        """Drop the readers of deleted partitions: a new one of the same name starts from nothing.
        Earlier searches may take minutes. They need not end first, because later steps come after
        this in any case."""
        waits = [
            asyncio.ensure_future(_result(partial(each.forget, folders)))
            for each in (self._reads, self._searches)
        ]
        done, _ = await asyncio.wait(waits, timeout=FORGET_S)
        for each in done:
            each.result()

    def close(self) -> None:
        """Finish the pending reads."""
        self._reads.close()
        self._searches.close()


class _Rounds:
    """Pending jobs, in the turns of their requests. Thread-safe. Owner: a _Reading.

    Those before a job of `put_last` are in the first round, those after it in a later one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds: deque[Turns[object, Job]] = deque([Turns()])

    def __bool__(self) -> bool:
        with self._lock:
            return any(self._rounds)

    def put(self, job: Job, request: object = None) -> None:
        """Add a job at the end of its request's. request: None for one without others."""
        with self._lock:
            self._rounds[-1].put(object() if request is None else request, job)

    def put_last(self, job: Job) -> None:
        """Add a job that runs after all jobs that are pending, and before all later ones."""
        last: Turns[object, Job] = Turns()
        last.put(None, job)
        with self._lock:
            self._rounds += [last, Turns()]

    def take(self) -> Job:
        """The next job; there is one."""
        with self._lock:
            while not self._rounds[0]:
                self._rounds.popleft()
            return self._rounds[0].take()[1]


class _Reading:
    """Readers by folder, all reading on one thread, in order but for the turns of requests. Owner:
    LogReading."""

    def __init__(self, name: str, dir_errors: LogDirErrors, files: OpenFiles) -> None:
        self._dir_errors = dir_errors
        self._thread = ThreadPoolExecutor(1, name)
        self._files = files
        self._readers: dict[str, LogReader] = {}
        self._jobs = _Rounds()
        self._running = self._closed = False
        self._check: asyncio.TimerHandle | None = None

    def ask(
        self, folder: str, step: Callable[[LogReader], Any], on_answer: OnAnswer, request: object = None
    ) -> None:
        """Run a step with the folder's reader. An unreadable log is KAFKA_STORAGE_ERROR."""
        self._jobs.put((partial(self._run, folder, step), partial(self._read, folder, on_answer)), request)
        self._begin_if_idle()

    def forget(self, folders: list[str], on_answer: OnAnswer) -> None:
        """Drop the readers of these folders, after the steps that were requested before."""
        self._jobs.put_last((partial(self._forget, folders), on_answer))
        self._begin_if_idle()

    def close(self) -> None:
        """Finish the pending reads."""
        self._closed = True
        self._thread.shutdown(wait=True)

    # --- on the loop ------------------------------------------------------------------------------------

    def _begin_if_idle(self) -> None:
        if not self._running:
            self._begin()

    def _begin(self) -> None:
        if not self._closed:
            self._running = True
            self._thread.submit(self._work, asyncio.get_running_loop())

    def _read(self, folder: str, on_answer: OnAnswer, found: Any) -> None:
        if isinstance(found, (OSError, CorruptLog, ProtocolError)):
            self._dir_errors.report(folder, found)
            found = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(found))
        elif isinstance(found, Exception) and not isinstance(found, KafkaError):
            log.error("%s could not be read", folder, exc_info=found)
            found = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(found))
        on_answer(found)

    def _call_back(self, results: list[tuple[OnAnswer, Any]]) -> None:
        for on_answer, found in results:
            try:
                on_answer(found)
            except Exception:
                log.exception("the callback of a read failed")

    def _rested(self, results: list[tuple[OnAnswer, Any]]) -> None:
        """The thread's queue was empty; start it again if there are new jobs."""
        self._running = False
        if self._jobs:
            self._begin()
        if self._check is None and self._files.statistics()[0]:
            self._check = asyncio.get_running_loop().call_later(CHECK_S, self._close_deleted)
        self._call_back(results)

    def _close_deleted(self) -> None:
        """Close the files of deleted segments, though their logs may not be read again."""
        self._check = None
        self._jobs.put((self._files.forget_deleted, lambda _: None))
        self._begin_if_idle()

    # --- on the thread ----------------------------------------------------------------------------------

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        results: list[tuple[OnAnswer, Any]] = []
        began = time.monotonic()
        while self._jobs:
            job, on_answer = self._jobs.take()
            try:
                results.append((on_answer, job()))
            except Exception as error:
                results.append((on_answer, error))
            now = time.monotonic()
            if self._jobs and (len(results) == TOGETHER or now - began > DELIVER_AFTER_S):
                loop.call_soon_threadsafe(self._call_back, results)
                results, began = [], now
        loop.call_soon_threadsafe(self._rested, results)

    def _run(self, folder: str, step: Callable[[LogReader], T]) -> T:
        reader = self._readers.get(folder)
        if reader is None:
            if len(self._readers) >= MAX_READERS:
                del self._readers[next(iter(self._readers))]
            reader = self._readers[folder] = LogReader(folder, self._files)
        return step(reader)

    def _forget(self, folders: list[str]) -> None:
        for folder in folders:
            self._readers.pop(folder, None)
            self._files.forget_folder(folder)


async def _result(ask: Callable[[OnAnswer], None]) -> Any:
    """The answer; raises it if it is an error."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(partial(_settle, found))
    return await found


def _settle(future: "asyncio.Future[Any]", found: Any) -> None:
    if future.done():
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
