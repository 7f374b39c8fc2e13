"""A thread that writes checkpoints, and waits for the disk in place of the loop of appends."""

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from kbroker.io.files.log_dir import LogDir
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.log import files
from kbroker.log.checkpoint import Offsets, TopicPartition

BUSY_SHARE = 20
"""A thread that may rest works at most one part in this many of the time, however many logs there
are."""
Failures = list[tuple[str, OSError]]
"""Log dirs that could not be written."""


class CheckpointThread:
    """One job at a time. Runs in: io. Owner: the part whose files it writes. Not thread-safe, only
    the jobs run in the thread. failed: called in the loop with each log dir that a job could not
    write. ended: called by the thread when `take` can report the end of a job."""

    def __init__(
        self,
        name: str,
        failed: Callable[[str, OSError], None],
        ended: Callable[[], object] | None = None,
    ) -> None:
        self._name = name
        self._failed = failed
        self._call_when_ended = ended
        self._executor: ThreadPoolExecutor | None = None
        self._job: Future[tuple[Failures, float, float]] | None = None
        self._seconds = 0.0
        self._ended = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a job is in progress, or has ended and `take` has not reported its failures."""
        return self._job is not None

    @property
    def rest_is_due(self) -> bool:
        """Whether the next job would make it work more than one part in BUSY_SHARE of the time."""
        return time.monotonic() < self._ended + BUSY_SHARE * self._seconds

    def begin(self, job: Callable[[], Failures]) -> None:
        """Begin a job. No other is in progress."""
        assert self._job is None
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, self._name)
        self._job = self._executor.submit(_timed, job)
        if (ended := self._call_when_ended) is not None:
            self._job.add_done_callback(lambda _: ended())

    def take(self) -> None:
        """Report the failures of the job if it has ended."""
        if self._job is None or not self._job.done():
            return
        failures, self._seconds, self._ended = self._job.result()
        self._job = None
        for path, error in failures:
            self._failed(path, error)

    def close(self) -> None:
        """Wait for the job in progress, and report its failures. No job begins after this."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self.take()


def _timed(job: Callable[[], Failures]) -> tuple[Failures, float, float]:
    """Runs in the thread. Returns the failures of a job, the seconds that it took, and the time of
    its end, which `take` may learn of much later."""
    began = time.monotonic()
    failures, ended = job(), time.monotonic()
    return failures, ended - began, ended


def by_dir(
    log_dir: Callable[[str], LogDir], partitions: Iterable[UnifiedLog]
) -> list[tuple[LogDir, list[UnifiedLog]]]:
    """The log dirs that have not failed, each with its partitions. log_dir: the one of a path."""
    found: dict[str, list[UnifiedLog]] = {}
    for partition in partitions:
        found.setdefault(files.log_dir_of(partition.folder), []).append(partition)
    dirs = [(log_dir(path), logs) for path, logs in found.items()]
    return [(folder, logs) for folder, logs in dirs if folder.failed is None]


def write_each(
    dirs: Sequence[tuple[LogDir, list[UnifiedLog]]], write: Callable[[LogDir, list[UnifiedLog]], None]
) -> Failures:
    """Write a checkpoint of each log dir. Runs in the thread."""
    failures = []
    for folder, partitions in dirs:
        try:
            write(folder, partitions)
        except OSError as error:
            failures.append((folder.path, error))
    return failures


def is_open_in(log_dir: str, partition: UnifiedLog) -> bool:
    """Whether a partition is open in a log dir. The thread checks this after it has read the
    offsets: those of a closed one may be of the next log in its slot."""
    return partition.is_open and files.log_dir_of(partition.folder) == log_dir


def offsets_of_open(
    log_dir: str, partitions: Iterable[UnifiedLog], offset: Callable[[UnifiedLog], int]
) -> Offsets:
    """Runs in the thread. An offset of each partition that is still open in a log dir; a negative
    one is none."""
    found: dict[TopicPartition, int] = {}
    for partition in partitions:
        value = offset(partition)
        if value >= 0 and is_open_in(log_dir, partition):
            found[partition.topic, partition.partition] = value
    return found
