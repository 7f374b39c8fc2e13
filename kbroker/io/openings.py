"""Opening of logs: from the state saved at the last clean shutdown, or else in threads from their files."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from kbroker.io.files.checkpoint import TopicPartition
from kbroker.io.files.log_dir import finish_future
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints
from kbroker.io.partition.partition import Partition
from kbroker.io.recovery import closed_logs
from kbroker.io.recovery.closed_logs import ClosedLog
from kbroker.io.recovery.loaded_log import LoadedLog, TrustedEnd
from kbroker.io.recovery.progress import RecoveryProgress
from kbroker.ipc.child import ChildContext
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.messages import OpenPartition


@dataclass(slots=True)
class Opening:
    """A partition whose log is being opened. call_ids: of control's calls that wait for it."""

    message: OpenPartition
    partition: Partition
    call_ids: list[int] = field(default_factory=list)
    loaded: LoadedLog | None = None
    error: Exception | None = None
    nanoseconds: int = 0

    @property
    def key(self) -> TopicPartition:
        return self.message.topic, self.message.partition


class Openings:
    """Runs in: io. Owner: Logs. Not thread-safe; threads only load. notify: called, by any thread, when there is
    something to take."""

    def __init__(
        self, context: ChildContext, checkpoints: OffsetCheckpoints, notify: Callable[[], None]
    ) -> None:
        self._clean_dirs = context.clean_dirs if context.first_start else frozenset()
        self._checkpoints = checkpoints
        self._notify = notify
        self._left = _left_by_last_stop(context)
        self._under_way: dict[int, Opening] = {}
        self._done: deque[Opening] = deque()
        self._progress = RecoveryProgress()
        threads = context.config.get_int("num.recovery.threads.per.data.dir")
        self._executor = ThreadPoolExecutor(threads * max(1, len(context.log_dirs)), "recovery")

    def get(self, slot: int) -> Opening | None:
        """The opening of a slot that is under way."""
        return self._under_way.get(slot)

    def finished(self, opening: Opening) -> None:
        """There is nothing to load, or it is loaded."""
        self._done.append(opening)
        self._notify()

    def recall(self, opening: Opening) -> bool:
        """Whether the log opens from the state saved at the last shutdown; then the opening is finished."""
        message, key = opening.message, opening.key
        closed = self._left.get(message.log_dir, {}).pop(key, None)
        if closed is None:
            return False
        points, starts, first_dirty = self._checkpoints.at_start(message.log_dir)
        opening.partition.first_dirty = first_dirty.get(key, -1)
        opening.loaded = opening.partition.recall(
            closed, message.topic_id, points.get(key, 0), starts.get(key, 0), wall_clock_ms()
        )
        if opening.loaded is None:
            return False
        self._under_way[message.slot] = opening
        self.finished(opening)
        return True

    def load(self, opening: Opening, trusted: TrustedEnd | None) -> None:
        """Have a thread load the log. trusted: see `loaded_log.TrustedEnd`."""
        self._under_way[opening.message.slot] = opening
        self._progress.begin(time.monotonic_ns())
        self._executor.submit(self._load, opening, trusted)

    def _load(self, opening: Opening, trusted: TrustedEnd | None) -> None:
        """In a thread: nothing shared is touched."""
        message, key = opening.message, opening.key
        began = time.monotonic_ns()
        try:
            Path(message.log_dir).stat()  # a missing log dir has failed: it is not created again
            points, starts, first_dirty = self._checkpoints.at_start(message.log_dir)
            if not message.new:  # the search reads the whole log dir
                finish_future(message.log_dir, *key, message.topic_id)
            new = opening.partition.create_folder(message.topic_id)
            opening.partition.first_dirty = -1 if new else first_dirty.get(key, -1)
            if new and trusted is None:
                opening.loaded = opening.partition.create(message.leader_epoch)
            else:
                opening.loaded = opening.partition.recover(
                    clean=message.log_dir in self._clean_dirs,
                    recovery_point=0 if new else points.get(key, 0),
                    log_start=0 if new else starts.get(key, 0),
                    now_ms=wall_clock_ms(),
                    trusted_end=trusted,
                    progress=self._progress.scanned,
                )
        except Exception as error:
            opening.error = error
        opening.nanoseconds = time.monotonic_ns() - began
        self._progress.finish()
        self.finished(opening)

    def take(self) -> Iterator[Opening]:
        """Those that are finished, each once."""
        while self._done:
            opening = self._done.popleft()
            self._under_way.pop(opening.message.slot, None)
            yield opening

    def tell(self) -> str | None:
        """Log the progress of loading, when it is due."""
        return self._progress.tell(time.monotonic_ns())

    def close(self) -> None:
        """Load nothing more; what is being loaded is waited for."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def _left_by_last_stop(context: ChildContext) -> dict[str, dict[TopicPartition, ClosedLog]]:
    found: dict[str, dict[TopicPartition, ClosedLog]] = {}
    for log_dir, contents in context.closed_logs.items():
        of_dir = found[log_dir] = {}
        for content in contents:
            of_dir.update(closed_logs.parse(content))
    return found
