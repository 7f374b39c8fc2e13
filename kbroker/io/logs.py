"""The logs of one IO worker: opens them in threads, rolls them, moves their log starts, and closes
them. `log_dirs/failures.py` takes them offline when their log dir fails.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from kbroker.config.topic import TopicConfig
from kbroker.io.append.drain import Drain
from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.failures import LogDirFailures
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints, RecoveryNotes
from kbroker.io.log_dirs.reservations import Reservations
from kbroker.io.openings import Opening, Openings, begin_recovery, published_end, set_state
from kbroker.io.partition.deletions import Deletions
from kbroker.io.partition.log_spec import LogSpec
from kbroker.io.partition.unified_log import UnifiedLog, open_log
from kbroker.io.recovery import loaded_log
from kbroker.io.recovery.loaded_log import ClosedLog, LoadedLog
from kbroker.ipc.child import ChildContext
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import NO_ROOM, LogDirErrors
from kbroker.ipc.messages import Follow, Lead, OpenPartition, Reply
from kbroker.log import files
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

BeginRole = Callable[[Lead | Follow | None], tuple[int, str]]
RECOVERED_LOGS = bind("kbroker_recovered_logs_total")
RECOVERY_SECONDS = bind("kbroker_recovery_seconds")
SEGMENT_ROLLS = bind("kbroker_segment_rolls_total")


class Logs:
    """Runs in: io. Owner: the IO worker. Not thread-safe; threads only load. Iterating gives the
    open partitions."""

    def __init__(self, context: ChildContext, drain: Drain, notify: Callable[[], None]) -> None:
        self._shared = context.shared
        self._drain = drain
        self._partitions: dict[int, UnifiedLog] = {}
        self._dirs: dict[str, LogDir] = {path: LogDir(path) for path in context.log_dirs}
        self._worker = context.index
        errors = LogDirErrors(context.config.log_dirs, context.shared)
        self.failures = LogDirFailures(errors, drain, self._dirs, self._partitions)
        self.moved_listeners: list[Callable[[int, str], None]] = []
        """Called with the slot of each partition that leaves its log dir, and its folder there."""
        self.configured_listeners: list[Callable[[UnifiedLog], None]] = []
        """Called with each partition that was opened or has new settings."""
        self._checkpoints = OffsetCheckpoints(self._dirs, self.failures.checkpoint_failed, notify)
        self.recovery_notes = RecoveryNotes(self._dirs, self.get, self.failures.checkpoint_failed)
        self._openings = Openings(context, self._checkpoints, drain.producers, notify)
        max_bytes = context.config.get_int("kbroker.log.reserve.bytes")
        self.slots_used = 0
        """The highest slot that has had a log here, plus 1."""
        self.reservations = Reservations(
            lambda: drain.rows[: self.slots_used], self._dirs, max_bytes, self.get, self.failures.log_failed
        )
        self.failures.no_room_listeners.append(self.reservations.free)
        self.deletions = Deletions()
        self.expiring = set[int]()  # slots whose records expire (kbroker.record.ttl.ms)

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(list(self._partitions.values()))

    @property
    def count(self) -> int:
        """Open partitions."""
        return len(self._partitions)

    def get(self, slot: int) -> UnifiedLog | None:
        """The open partition of a slot."""
        return self._partitions.get(slot)

    def require(self, slot: int) -> UnifiedLog:
        """The open partition of a slot. Raises NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR."""
        partition = self._partitions.get(slot)
        if partition is None:
            offline = self._shared.slots[slot, Slot.STATE] == SlotState.OFFLINE
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR if offline else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def log_dir(self, path: str) -> LogDir:
        return self._dirs[path]

    # --- opening -------------------------------------------------------------------------------------

    def open(self, message: OpenPartition, call_id: int) -> None:
        """Begin to open a partition; ``take_opened`` answers once it is online."""
        slot = message.slot
        if (pending := self._openings.get(slot)) is not None:
            pending.call_ids.append(call_id)
            return
        words = self._shared.slots[slot]
        opening = Opening(message, [call_id])
        if slot in self._partitions:  # control has restarted and calls again
            self.configure(self._partitions[slot], message.config)
            self._openings.finished(opening)
            return
        if number := self.failures.of(message.log_dir):
            opening.error = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{message.log_dir}: {os.strerror(number)}"
            )
            self._openings.finished(opening)
            return
        try:
            if self._openings.restore(opening):
                return
            trusted = self._openings.trusted_end(message)
            if self.failures.lost.get(slot) == message.generation:
                trusted = published_end(words)  # the checkpoints were read before it moved there
                self._checkpoints.moved_here(message.log_dir, opening.key)
            opening.known_mark = int(words[Slot.HIGH_WATERMARK]) if trusted else None
            begin_recovery(words, trusted)
            self._openings.load(opening, trusted)
        except OSError as error:  # the checkpoints of the log dir cannot be read
            opening.error = error
            self._openings.finished(opening)

    def is_opening(self, slot: int) -> bool:
        """Whether a partition is being opened that `take_opened` will bring online."""
        return self._openings.get(slot) is not None

    def forget_calls(self) -> None:
        """The control process that waits for partitions has died: they are opened, but not
        answered."""
        self._openings.forget_calls()

    def take_opened(self, begin_role: BeginRole) -> list[Reply]:
        """Bring the loaded logs online; returns the answers to control's calls. begin_role: called
        with a log's role."""
        if line := self._openings.progress_line():
            log.info("recovery: %s", line)
        replies = []
        for opening in self._openings.take():
            error, text = self._bring_online(opening, begin_role)
            replies += [Reply(call_id, None, int(error), text) for call_id in opening.call_ids]
        return replies

    def _bring_online(self, opening: Opening, begin_role: BeginRole) -> tuple[int, str]:
        if opening.loaded is not None:
            try:
                self._take_over(opening, opening.loaded)
            except OSError as error:
                opening.error = error
                self._openings.not_opened(opening)
        if opening.error is None:
            return begin_role(opening.message.role)
        level = logging.DEBUG if self.failures.of(opening.message.log_dir) else logging.ERROR
        log.log(level, "%s cannot be opened: %s", opening.folder, opening.error)
        set_state(self._shared.slots[opening.message.slot], SlotState.OFFLINE)
        if isinstance(opening.error, KafkaError):
            return int(opening.error.code), str(opening.error)
        if not isinstance(opening.error, OSError):  # damage: control does not try it again
            return ErrorCode.UNKNOWN_SERVER_ERROR, str(opening.error)
        if opening.error.errno not in NO_ROOM:
            self.failures.dir_failed(opening.message.log_dir, opening.error)
        return ErrorCode.KAFKA_STORAGE_ERROR, str(opening.error)

    def _take_over(self, opening: Opening, loaded: LoadedLog) -> None:
        """Bring a loaded log online. Raises OSError."""
        slot, epoch = opening.message.slot, opening.message.leader_epoch
        spec, producers = self._spec_of(opening), self._drain.producers
        opened = open_log(spec, loaded, epoch, producers, self.deletions, wall_clock_ms())
        self.failures.lost.pop(slot, None)
        self.slots_used = max(self.slots_used, slot + 1)
        self._partitions[slot] = opened
        self.configure(opened, opening.message.config)
        self._drain.notify(slot)
        self._drain.metrics.words[RECOVERED_LOGS] += 1
        self._drain.metrics.observe(RECOVERY_SECONDS, opening.nanoseconds)

    def _spec_of(self, opening: Opening) -> LogSpec:
        message = opening.message
        return LogSpec(
            slot=message.slot,
            words=self._shared.slots[message.slot],
            row=self._drain.rows[message.slot],
            folder=opening.folder,
            topic=message.topic,
            partition=message.partition,
            topic_id=message.topic_id,
            config=message.config,
            leads=opening.leads,
            replicated=message.role is not None,
            known_mark=opening.known_mark,
            reserve_max_bytes=self.reservations.max_bytes(message.log_dir),
            first_dirty=opening.first_dirty,
        )

    # --- while open ----------------------------------------------------------------------------------

    def configure(self, partition: UnifiedLog, config: TopicConfig) -> None:
        """New settings, from the next append or retention run on."""
        mark = partition.high_watermark
        partition.configure(config)
        if partition.high_watermark > mark:
            self._drain.notify(partition.slot)
        (self.expiring.add if config.ttl_ms >= 0 else self.expiring.discard)(partition.slot)
        for listener in self.configured_listeners:
            listener(partition)

    def roll(self, slot: int) -> None:
        """The next batch of a slot needs a new segment."""
        if (partition := self._partitions.get(slot)) is None:
            return  # an error of another log in the same drain took the log dir offline
        try:
            partition.roll(wall_clock_ms())
            self._drain.metrics.words[SEGMENT_ROLLS] += 1
        except OSError as error:
            self.failures.log_failed(slot, error)

    def open_files(self, slot: int) -> bool:
        """Open the files that the next batch of a slot needs; returns whether they are open now."""
        if (partition := self._partitions.get(slot)) is None:
            return False  # as in `roll`
        try:
            partition.active.open_files()
        except OSError as error:
            self.failures.log_failed(slot, error)
            return False
        return True

    def sweep_deleted(self, delay_ms: int) -> None:
        """Remove the folders of logs that a process deleted before it died or was stopped."""
        online = [path for path, folder in self._dirs.items() if folder.failed is None]
        self.deletions.sweep(online, (wall_clock_ms() - delay_ms) * 1_000_000)

    def segment_file(self, slot: int, base_offset: int) -> Path | None:
        """A segment's .log, None when it is gone."""
        partition = self._partitions.get(slot)
        if partition is None:
            return None
        path = Path(files.path(partition.folder, base_offset, files.LOG))
        return path if path.exists() else None

    # --- closing -------------------------------------------------------------------------------------

    def delete(self, slots: Iterable[int]) -> dict[int, OSError]:
        """Close partitions and rename their folders for removal. The renames are on disk when this
        returns: one sync for each log dir. Returns errors by slot."""
        now, errors = wall_clock_ms(), dict[int, OSError]()
        renamed: dict[str, dict[int, UnifiedLog]] = {}
        for slot in slots:
            if (partition := self._partitions.pop(slot, None)) is None:
                self._openings.forget(slot)
                continue
            try:
                partition.delete(now)
            except OSError as error:
                errors[slot] = error
            else:
                renamed.setdefault(files.log_dir_of(partition.folder), {})[slot] = partition
        for log_dir, deleted in renamed.items():
            try:
                files.sync_folder(log_dir)
            except OSError as error:
                errors |= dict.fromkeys(deleted, error)
            self._checkpoints.forget(log_dir, deleted.values())
        return errors

    def leave(self, slot: int) -> None:
        """A paused partition ends its move now. A sync in progress is of the folder that it leaves,
        also if it cannot continue, and is opened in the new log dir later."""
        for listener in self.moved_listeners:
            listener(slot, self._partitions[slot].folder)

    def relocate(self, slot: int, folder: str, now: int) -> None:
        """Switch a paused partition to a folder in another log dir, after `leave`; the old folder
        is removed later. Raises OSError."""
        partition = self._partitions[slot]
        left = partition.folder
        self._checkpoints.forget(files.log_dir_of(left), [partition])
        partition.relocate(folder, self.reservations.max_bytes(files.log_dir_of(folder)), now)
        # a thread may have written entries of the old folder while its log was still open there
        self._checkpoints.forget(files.log_dir_of(left), [partition])
        if self.failures.full_disks.forget(slot):  # the failed writes of the old folder are not in the copy
            partition.repair(now)
        self._checkpoints.write([partition])
        self._drain.notify(slot)

    def begin_checkpoint(self) -> None:
        """Begin to write recovery points and log starts of every log dir. A thread writes them:
        appends do not wait for the disk. With many logs it begins at the end of
        `collect_checkpoint`."""
        self._checkpoints.begin(self._partitions.values())

    @property
    def collecting_checkpoint(self) -> bool:
        """Whether `collect_checkpoint` has something to do."""
        return self._checkpoints.collecting

    def collect_checkpoint(self) -> None:
        """Collect the next logs of the checkpoint that has begun."""
        self._checkpoints.collect()

    def take_checkpoint(self) -> None:
        """Report the log dirs that the last `begin_checkpoint` could not write."""
        self._checkpoints.take()

    def truncated(self, slot: int) -> None:
        """A log was truncated: what its checkpoints have of it is as low when this returns. Raises
        OSError."""
        self._checkpoints.truncated(self._partitions[slot])

    def checkpoint_copy(self, slot: int, log_dir: str) -> None:
        """Write and sync the checkpoints of a log's copy in another log dir. Raises OSError."""
        self._checkpoints.write_copy(self._partitions[slot], log_dir)

    def delete_records(self, slot: int, offset: int) -> int:
        """Advance the log start; returns the new one, which `begin_log_starts` writes. Raises
        KafkaError."""
        return self.require(slot).delete_records(offset)

    def log_dir_of(self, slot: int) -> str:
        """The log dir of an open partition. Raises as `require` does."""
        return files.log_dir_of(self.require(slot).folder)

    def begin_log_starts(self, log_dir: str, slots: Iterable[int]) -> None:
        """Begin to write the log starts of partitions of a log dir, except those that have left it.
        A thread writes them: appends do not wait for the disk. No such write is in progress
        there."""
        opened = [partition for slot in slots if (partition := self._partitions.get(slot)) is not None]
        here = [partition for partition in opened if files.log_dir_of(partition.folder) == log_dir]
        self._checkpoints.begin_starts(log_dir, here)

    def take_log_starts(self, log_dir: str) -> bool:
        """Whether the log starts of the last `begin_log_starts` of a log dir are written; reports a
        log dir that could not be written."""
        return self._checkpoints.take_starts(log_dir)

    def require_log_start(self, slot: int, start: int) -> None:
        """Raises KAFKA_STORAGE_ERROR if the last `begin_log_starts`, which has ended, has not put
        this log start on disk; NOT_LEADER_OR_FOLLOWER."""
        if not self._checkpoints.is_start_on_disk(self.require(slot), start):
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "its log start is not on disk")

    def is_full(self, slot: int) -> bool:
        """Whether appends to logs in the log dir of an open partition are refused: it is full."""
        partition = self._partitions.get(slot)
        return partition is not None and self.failures.full_disks.has(files.log_dir_of(partition.folder))

    def advance_log_starts(self, starts: Mapping[int, int]) -> None:
        """Advance log starts to those of the leaders, up to the high watermarks here; starts: by
        slot.

        They are on disk before other processes see them: DeleteRecords is answered when every
        replica's slot has the new log start, and deleted records must not reappear if a replica
        becomes leader after a crash. On a full disk there is room for a log start when the segments
        below it are removed."""
        here = [(self._partitions[slot], start) for slot, start in starts.items() if slot in self._partitions]
        known = [(partition, min(start, partition.high_watermark)) for partition, start in here]
        with self._checkpoints.imminent_starts(known) as on_disk:
            for partition, start in known:
                if partition.slot not in self._partitions:
                    continue  # its log dir has just failed
                try:
                    if partition.slot in on_disk:
                        partition.advance_log_start(start)
                    else:
                        partition.delete_segments_below(start, wall_clock_ms())
                except OSError as error:
                    self.failures.log_failed(partition.slot, error)

    def close_all(self, begin_role: BeginRole) -> int:
        """Clean shutdown: sync and close every log, then write the checkpoints. Raises OSError.

        Returns how many logs could not be closed; the next start must check them."""
        self._openings.close()
        self.recovery_notes.close()
        self._checkpoints.close()
        self.take_opened(begin_role)
        not_closed = self._openings.not_closed(self._worker, self._partitions)
        left: dict[str, list[ClosedLog]] = {}
        for slot, partition in list(self._partitions.items()):
            of_dir = left.setdefault(files.log_dir_of(partition.folder), [])
            try:
                self.failures.full_disks.forget_unwritten(partition)
                if (closed := partition.close(sync=False)) is not None:
                    of_dir.append(closed)
            except OSError as error:
                self.failures.log_failed(slot, error)
                not_closed += error.errno in NO_ROOM  # any other error takes its log dir offline
        for path, closed_here in left.items():
            try:
                self._dirs[path].sync()  # once for all logs: thousands of single syncs would take seconds
            except OSError as error:
                not_closed += self.failures.dir_not_synced(path, error)
                continue
            try:
                loaded_log.write_closed(path, self._worker, closed_here)
            except OSError as error:
                log.warning("the next start has to recover every log of %s: %s", path, error)
        self._checkpoints.write(self._partitions.values())
        return not_closed
