"""State shared by the cleaner's threads: settings, logs in progress, uncleanable logs, the
throttle, metrics."""

import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

from kbroker.cleaner.log_cleaner import Cleaned
from kbroker.cleaner.offset_map import usable_load
from kbroker.cleaner.throttle import Throttle
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.cleaning_messages import CleanableLog
from kbroker.metrics.slots import Slots, bind

RUNS = bind("kbroker_cleaner_runs_total")
FAILURES = bind("kbroker_cleaner_failures_total")
READ_BYTES = bind("kbroker_cleaner_read_bytes_total")
WRITTEN_BYTES = bind("kbroker_cleaner_written_bytes_total")
SECONDS = bind("kbroker_cleaner_seconds")
DIRTIEST = bind("kbroker_cleaner_max_dirty_percent")
UNCLEANABLE = bind("kbroker_cleaner_uncleanable_partitions")
PAUSE_S: Final = 0.005
PAUSE_S_PER_LOG: Final = 100e-6
"""Pause after a check, and for each log in it: ten times the CPU of a check. There may be
thousands of logs. How long a check took does not count: on a busy host it waits for others."""
MAX_MAP_BYTES = (1 << 31) - 1  # as Kafka

Log = tuple[int, int]
"""(slot, generation)"""


class MemorySizes(NamedTuple):
    """Memory of one cleaner thread. map_bytes, load_factor: of its offset map. buffer_bytes: of
    each of its buffers."""

    map_bytes: int
    load_factor: float
    buffer_bytes: int


def _log_of(one: CleanableLog) -> Log:
    return one.slot, one.generation


class CleanerState:
    """Runs in: cleaner, any thread. Owner: main."""

    def __init__(self, config: BrokerConfig, metrics: Slots) -> None:
        self.config = config
        self.metrics = metrics
        self.throttle = Throttle(config.get_float("log.cleaner.io.max.bytes.per.second"))
        self.stop = threading.Event()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[Log] = set()
        self._uncleanable: set[Log] = set()
        self._failed: set[Log] = set()
        """Logs whose last cleaning did not complete. They come after all others: their disk may be
        full for hours."""

    def configure(self, values: dict[str, str]) -> None:
        """Dynamic broker settings by Kafka name; used from the next log on. Of logs that could not
        be cleaned, a map of another size may suffice for some: all are tried again."""
        before = self.sizes
        self.config = self.config.with_dynamic(cluster=values, own={})
        self.throttle.bytes_per_second = self.config.get_float("log.cleaner.io.max.bytes.per.second")
        after = self.sizes
        if (after.map_bytes, after.load_factor) != (before.map_bytes, before.load_factor):
            with self._lock:
                self._forget_others(set())

    @property
    def sizes(self) -> MemorySizes:
        """The share of one thread in the memory that the settings allow."""
        config, threads = self.config, max(1, self.threads)
        return MemorySizes(
            min(config.get_int("log.cleaner.dedupe.buffer.size") // threads, MAX_MAP_BYTES),
            usable_load(config.get_float("log.cleaner.io.buffer.load.factor")),
            config.get_int("log.cleaner.io.buffer.size") // threads // 2,
        )

    @property
    def threads(self) -> int:
        """The number of cleaner threads that the settings request now."""
        return self.config.get_int("log.cleaner.threads")

    def wake_threads(self) -> None:
        """End the `back_off` of all threads."""
        self._wake.set()

    def back_off(self, checked: int = 0) -> None:
        """Wait for log.cleaner.backoff.ms, or until an IO worker calls, but at least for a pause.
        checked: logs in the check before it."""
        min_s = PAUSE_S + PAUSE_S_PER_LOG * checked
        self.stop.wait(min_s)
        rest_s = self.config.get_int("log.cleaner.backoff.ms") / 1000 - min_s
        self._wake.wait(min(max(0.0, rest_s), threading.TIMEOUT_MAX))
        if not self.stop.is_set():
            self._wake.clear()

    def take_filthiest(
        self, logs: Sequence[tuple[int, CleanableLog]], complete: bool = True
    ) -> tuple[int, CleanableLog] | None:
        """The dirtiest log that is due and that no other thread cleans; the caller returns it with
        `done`. logs: each with its IO worker. complete: these are the logs of all IO workers."""
        with self._lock:
            if complete:
                self._forget_others({_log_of(one) for _, one in logs})
            taken = self._busy | self._uncleanable
            candidates = [(worker, one) for worker, one in logs if _log_of(one) not in taken]
            self.metrics.words[DIRTIEST] = int(100 * max((one.ratio for _, one in candidates), default=0.0))
            due = [pair for pair in candidates if pair[1].due]
            if not due:
                return None
            due = [pair for pair in due if _log_of(pair[1]) not in self._failed] or due
            filthiest = max(due, key=lambda pair: pair[1].ratio)
            self._busy.add(_log_of(filthiest[1]))
            return filthiest

    def done(self, one: CleanableLog, cleaned: Cleaned | None, nanoseconds: int) -> None:
        """A thread has finished a log; cleaned: None if the cleaning did not complete."""
        with self._lock:
            self._busy.discard(_log_of(one))
            if cleaned is None:
                self._failed.add(_log_of(one))
            else:
                self._failed.discard(_log_of(one))
                self.metrics.words[RUNS] += 1
                self.metrics.words[READ_BYTES] += cleaned.map_bytes + cleaned.bytes_read
                self.metrics.words[WRITTEN_BYTES] += cleaned.bytes_written
                self.metrics.observe(SECONDS, nanoseconds)

    def failed(self, one: CleanableLog, for_good: bool) -> None:
        """A log could not be cleaned. for_good: it would fail again, so it is not cleaned until the
        next start, or until offset maps have another size."""
        with self._lock:
            self.metrics.words[FAILURES] += 1
            if for_good:
                self._uncleanable.add(_log_of(one))
                self.metrics.words[UNCLEANABLE] = len(self._uncleanable)

    def _forget_others(self, known: set[Log]) -> None:
        """Forget uncleanable logs that were deleted, or that compaction no longer concerns."""
        self._uncleanable &= known
        self._failed &= known
        self.metrics.words[UNCLEANABLE] = len(self._uncleanable)
