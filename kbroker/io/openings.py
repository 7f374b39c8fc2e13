"""Opening of logs: from the state saved at the last clean shutdown, or from their files, in
threads."""

import itertools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import PriorityQueue

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.files.log_dir import LogDir, finish_future
from kbroker.io.files.segment import ActiveState, open_files
from kbroker.io.log_dirs.offset_checkpoints import DeletedEntries, OffsetCheckpoints
from kbroker.io.recovery import loaded_log, recovery
from kbroker.io.recovery.loaded_log import ClosedLog, LoadedLog, LoadRequest, TrustedEnd
from kbroker.ipc.child import ChildContext
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.ipc.messages import Follow, OpenPartition
from kbroker.kernels.sequence import write_group
from kbroker.log import boot_mark, checkpoint, files
from kbroker.log.checkpoint import TopicPartition
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.kafka_uuid import format_uuid

EVERY_NS = 1_000_000_000  # between two lines on the progress


class Opening(Struct):
    """A partition whose log is being opened. call_ids: of control's calls that wait for it.
    known_mark: see LogSpec.

    loaded: the log; None while it is being loaded, if that failed, and if it is open already.
    began_ns: CLOCK_MONOTONIC when it was to be loaded.
    """

    message: OpenPartition
    call_ids: list[int] = field(default_factory=list)
    known_mark: int | None = None
    loaded: LoadedLog | None = None
    first_dirty: int = -1
    error: Exception | None = None
    began_ns: int = 0
    nanoseconds: int = 0

    @property
    def key(self) -> TopicPartition:
        return self.message.topic, self.message.partition

    @property
    def lowest_mark(self) -> int | None:
        """See LoadRequest.known_mark."""
        return 0 if self.known_mark is None and self.message.role is not None else self.known_mark

    @property
    def folder(self) -> str:
        return f"{self.message.log_dir}/{files.folder_name(*self.key)}"

    @property
    def leads(self) -> bool:
        return not isinstance(self.message.role, Follow)


class Openings:
    """Runs in: io. Owner: Logs. Not thread-safe; threads only load. notify: called, by any thread,
    when there is something to take."""

    def __init__(
        self,
        context: ChildContext,
        checkpoints: OffsetCheckpoints,
        producers: ProducerTable,
        notify: Callable[[], None],
    ) -> None:
        self._producers = producers
        self._clean_dirs = context.clean_dirs if context.first_start else frozenset()
        self._same_boot_dirs = context.same_boot_dirs
        self._first_start = context.first_start
        self._slots = context.shared.slots
        self._checkpoints = checkpoints
        self._notify = notify
        self._left = _left_by_last_stop(context)
        self._pending: dict[int, Opening] = {}
        self._done: deque[Opening] = deque()
        self._unread: set[int] = set()  # slots of logs that could not be opened for lack of room
        self._taken: NDArray[np.bool_] = np.zeros(len(self._slots), np.bool_)
        self._progress = RecoveryProgress()
        self._deleted = DeletedEntries()
        threads = context.config.get_int("num.recovery.threads.per.data.dir")
        self._waiting: PriorityQueue[tuple[int, int, Opening, TrustedEnd | None]] = PriorityQueue()
        self._order = itertools.count()
        self._executor = ThreadPoolExecutor(threads * max(1, len(context.log_dirs)), "recovery")
        self._creators = ThreadPoolExecutor(threads * max(1, len(context.log_dirs)), "creation")

    def get(self, slot: int) -> Opening | None:
        """The opening of a slot that is in progress."""
        return self._pending.get(slot)

    def forget_calls(self) -> None:
        """Control has died: its calls get no reply."""
        for opening in (*self._pending.values(), *self._done.copy()):
            opening.call_ids.clear()

    def finished(self, opening: Opening) -> None:
        """The log is loaded, could not be loaded, or is open already: `take` returns it."""
        self._done.append(opening)
        self._notify()

    def restore(self, opening: Opening) -> bool:
        """Open the log from the state saved at the last clean stop; returns whether that was
        possible. Then the opening is finished. Raises OSError."""
        message, key = opening.message, opening.key
        closed = self._left.get(message.log_dir, {}).pop(key, None)
        if closed is None:
            return False
        points, starts, first_dirty = self._checkpoints.at_start(message.log_dir)
        opening.first_dirty = first_dirty.get(key, -1)
        expired_before_ms = wall_clock_ms() - self._producers.expiration_ms
        point, start = points.get(key, 0), starts.get(key, 0)
        opening.loaded = loaded_log.restore(
            closed, opening.folder, message.topic_id, point, start, expired_before_ms
        )
        if opening.loaded is None:
            return False
        self._pending[message.slot] = opening
        self.finished(opening)
        return True

    def trusted_end(self, message: OpenPartition) -> TrustedEnd | None:
        """The log end that a previous process of this worker published, in this run of the
        broker."""
        words = self._slots[message.slot]
        served = words[Slot.STATE] in (SlotState.ONLINE, SlotState.RECOVERING)
        if self._first_start or not served or words[Slot.GENERATION] != message.generation:
            return None
        if words[Slot.SEQUENCE] % 2 or words[Slot.SEGMENT_COUNT] == 0:
            return None  # it died while it wrote the slot: check the files instead
        return published_end(words)

    def load(self, opening: Opening, trusted: TrustedEnd | None) -> None:
        """Load the log in a thread. trusted: see `loaded_log.TrustedEnd`. Raises OSError."""
        size = 0 if opening.message.new else self._bytes_to_check(opening, trusted)
        self._pending[opening.message.slot] = opening
        opening.began_ns = time.monotonic_ns()
        self._progress.begin(opening.began_ns)
        if opening.message.new:
            # nothing has to be checked, and gigabytes of other logs may be ahead in the queue
            self._creators.submit(self._load, opening, trusted)
            return
        self._waiting.put((size, next(self._order), opening, trusted))
        self._executor.submit(self._load_next)

    def _bytes_to_check(self, opening: Opening, trusted: TrustedEnd | None) -> int:
        """The approximate bytes to read: the smallest logs are loaded first."""
        message = opening.message
        if trusted is not None or message.log_dir in self._clean_dirs:
            return 0
        points, _, _ = self._checkpoints.at_start(message.log_dir)
        return bytes_from(opening.folder, points.get(opening.key, 0))

    def _load_next(self) -> None:
        _, _, opening, trusted = self._waiting.get()
        self._load(opening, trusted)

    def _load(self, opening: Opening, trusted: TrustedEnd | None) -> None:
        """Load one log. Runs in a thread, and touches nothing that threads share."""
        message, key = opening.message, opening.key
        began = time.monotonic_ns()
        try:
            Path(message.log_dir).stat()  # a missing log dir has failed: it is not created again
            points, starts, first_dirty = self._checkpoints.at_start(message.log_dir)
            if not message.new:  # the search reads the whole log dir
                finish_future(message.log_dir, *key, message.topic_id)
            if not Path(opening.folder).exists():
                self._deleted.drop(message.log_dir, key, opening.began_ns)
                for offsets in (points, starts, first_dirty):
                    offsets.pop(key, None)
            new = create_folder(opening.folder, message.topic_id)
            opening.first_dirty = -1 if new else first_dirty.get(key, -1)
            if new and trusted is None:
                loaded = create(opening.folder, message.leader_epoch if opening.leads else -1)
            else:
                request = LoadRequest(
                    folder=opening.folder,
                    config=message.config,
                    clean=message.log_dir in self._clean_dirs,
                    known_mark=opening.lowest_mark,
                    same_boot=message.log_dir in self._same_boot_dirs and boot_mark.is_kept(message.log_dir),
                    recovery_point=0 if new else points.get(key, 0),
                    log_start=0 if new else starts.get(key, 0),
                    now_ms=wall_clock_ms(),
                    trusted_end=trusted,
                    progress=self._progress.scanned,
                    producer_expiration_ms=self._producers.expiration_ms,
                )
                loaded = recovery.load(request)
            lower_checkpoints(message.log_dir, key, points.get(key, 0), opening.first_dirty, loaded)
            opening.first_dirty = min(opening.first_dirty, loaded.active.next_offset)
            opening.loaded = loaded
        except Exception as error:
            opening.error = error
        opening.nanoseconds = time.monotonic_ns() - began
        self._progress.finish()
        self.finished(opening)

    def take(self) -> Iterator[Opening]:
        """The finished openings, each once."""
        while self._done:
            opening = self._done.popleft()
            self._pending.pop(opening.message.slot, None)
            self._unread.discard(opening.message.slot)
            self._taken[opening.message.slot] = True
            self.not_opened(opening)
            yield opening

    def not_opened(self, opening: Opening) -> None:
        """Note a log that found no room."""
        if isinstance(opening.error, OSError) and opening.error.errno in NO_ROOM:
            self._unread.add(opening.message.slot)

    def not_closed(self, worker: int, open_slots: Collection[int]) -> int:
        """Logs that are not closed cleanly when the worker closes the open ones: those that its
        predecessor had open, or could not open, and that were not opened again; and those that
        could not be opened although their log dirs are fine."""
        states, owners = self._slots[:, Slot.STATE], self._slots[:, Slot.OWNER]
        served = np.isin(states, (SlotState.ONLINE, SlotState.RECOVERING))
        offline = (states == SlotState.OFFLINE) & ~self._taken
        known = (served | offline) & (owners == worker)
        left = set() if self._first_start else set(np.flatnonzero(known).tolist())
        return len((left | self._unread).difference(open_slots))

    def forget(self, slot: int) -> None:
        """A log is deleted that is not open, for example because its process was killed."""
        self._unread.discard(slot)
        set_state(self._slots[slot], SlotState.DELETED)

    def progress_line(self) -> str | None:
        """The progress of loading, when it is due to be logged."""
        return self._progress.line(time.monotonic_ns())

    def close(self) -> None:
        """Stop loading; returns when the current loads have ended."""
        for executor in (self._executor, self._creators):
            executor.shutdown(wait=True, cancel_futures=True)


def lower_checkpoints(log_dir: str, key: TopicPartition, point: int, dirty: int, loaded: LoadedLog) -> None:
    """Write the lower offsets of a loaded log that ends below those of the checkpoints, before it
    grows: see `LogDir.lower_offsets`. point, dirty: those of the checkpoints. Raises OSError."""
    end = loaded.active.next_offset
    if loaded.recovery_point < point or end < dirty:
        LogDir(log_dir).lower_offsets(key, loaded.recovery_point, min(dirty, end), loaded.log_start)


def bytes_from(folder: str, offset: int) -> int:
    """Bytes of the segments that hold the offset or later ones; 0 where the folder cannot be
    read."""
    try:
        bases = [segment.base_offset for segment in files.list_segments(folder)]
        ends = [*bases[1:], sys.maxsize]
        following = [base for base, end in zip(bases, ends) if end > offset]  # noqa: B905 none without segments
        return sum(Path(files.path(folder, base, files.LOG)).stat().st_size for base in following)
    except OSError:  # loading reports the error
        return 0


def create_folder(folder: str, topic_id: bytes) -> bool:
    """Create a partition's folder and its partition.metadata if they are missing. Returns whether
    the folder is new; then checkpoints of that name belong to a deleted predecessor. Raises
    OSError, CorruptCheckpoint, and KafkaError(INCONSISTENT_TOPIC_ID) when the folder is of another
    topic of that name."""
    new = not Path(folder).exists()
    if new:
        Path(folder).mkdir(parents=True)
    found = None if new else checkpoint.read_topic_id(folder)
    if found is None:
        checkpoint.write_topic_id(folder, topic_id)
    elif found != topic_id:
        here, expected = format_uuid(found), format_uuid(topic_id)
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, f"{folder} is of topic id {here}, not {expected}")
    return new


def create(folder: str, leader_epoch: int) -> LoadedLog:
    """A log in a folder that was just created; nothing is loaded. It becomes durable with its first
    sync. leader_epoch: -1 for a follower. Raises OSError."""
    open_files(folder, 0).close()
    epochs = LeaderEpochFileCache(folder)
    if leader_epoch >= 0:
        epochs.assign(leader_epoch, 0, sync=False)  # here, because this runs in a thread
    return LoadedLog(
        closed=[],
        active=ActiveState(0, 0, 0, max_timestamp_offset=0),
        log_start=0,
        recovery_point=0,
        epochs=epochs,
    )


def published_end(words: NDArray[np.int64]) -> TrustedEnd:
    """End of a log, by its Slot."""
    return TrustedEnd(
        int(words[Slot.ACTIVE_BASE]),
        int(words[Slot.ACTIVE_END]),
        int(words[Slot.LOG_END]),
        int(words[Slot.LOG_START]),
    )


def load_again(
    folder: str, config: TopicConfig, recovery_point: int, end: TrustedEnd, mark: int, expiration_ms: int
) -> LoadedLog:
    """Load a log whose appends have failed, up to the end that it had published. mark: its high
    watermark; expiration_ms: of producers. Raises OSError, CorruptLog."""
    request = LoadRequest(
        folder, config, False, recovery_point, end.log_start, wall_clock_ms(), end, expiration_ms,
        known_mark=mark,
    )  # fmt: skip
    return recovery.load(request)


def _left_by_last_stop(context: ChildContext) -> dict[str, dict[TopicPartition, ClosedLog]]:
    found: dict[str, dict[TopicPartition, ClosedLog]] = {}
    for log_dir, contents in context.closed_logs.items():
        of_dir = found[log_dir] = {}
        for content in contents:
            of_dir.update(loaded_log.parse_closed(content))
    return found


class RecoveryProgress:
    """Counts logs and scanned bytes. Runs in: io. Owner: Openings; loading threads call `scanned`.
    Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = self._done = self._bytes = 0
        self._began_ns = self._reported_ns = 0

    def begin(self, now_ns: int) -> None:
        """One more log is to be loaded."""
        with self._lock:
            if self._total == self._done:
                self._total = self._done = self._bytes = 0
                self._began_ns = self._reported_ns = now_ns
            self._total += 1

    def scanned(self, count: int) -> None:
        """Bytes of a log were checked."""
        with self._lock:
            self._bytes += count

    def finish(self) -> None:
        """One log is loaded, or has failed to load."""
        with self._lock:
            self._done += 1

    def line(self, now_ns: int) -> str | None:
        """The progress line, if it is due now: every second if loading takes longer, and at the end
        if logs were scanned."""
        with self._lock:
            ended = self._total > 0 and self._total == self._done
            if self._total == 0 or (not ended and now_ns - self._reported_ns < EVERY_NS):
                return None
            self._reported_ns = now_ns
            seconds = (now_ns - self._began_ns) / 1e9
            line = f"{self._done} of {self._total} logs loaded, {self._bytes / 1e6:.0f} MB checked in {seconds:.1f} s"
            if ended:
                slow = seconds >= 1 or self._bytes > 0
                self._total = self._done = 0
                return line if slow else None
            return line


def set_state(words: NDArray[np.int64], state: int) -> None:
    """Publish the state of a log that is not open."""
    write_group(words, np.array([Slot.STATE]), np.array([state]))


def begin_recovery(words: NDArray[np.int64], trusted: TrustedEnd | None) -> None:
    """Publish that a log is being loaded. Without a trusted end the slot's offsets are of the log
    that had the slot before, or half written: if this process dies while it loads, its successor
    must not trust them either."""
    if trusted is None:
        write_group(
            words, np.array([Slot.STATE, Slot.SEGMENT_COUNT]), np.array([int(SlotState.RECOVERING), 0])
        )
    else:
        set_state(words, SlotState.RECOVERING)
