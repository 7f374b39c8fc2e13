"""Partitions that this IO worker follows: copied from the leader's segment files, up to the end in
the leader's slot.

Rules: Kafka's ReplicaFetcherThread. Nothing is requested from the leader's process; it may be dead.
"""

import errno
import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.io.append.drain import Drain
from kbroker.io.durability import Durability
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache, agreed_end
from kbroker.io.logs import Logs
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.io.replication.copier import Copier, CopyFailed, DamagedBatch
from kbroker.io.replication.copy_kernel import any_lagging
from kbroker.io.replication.throttle import Throttle
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import Follow
from kbroker.ipc.ring import wake_process
from kbroker.ipc.shared import Shared
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader

log = logging.getLogger(__name__)

PAUSE_NS = 1_000_000_000  # after a failure that may be temporary
SHORT_PAUSE_NS = 20_000_000  # after a condition that ends soon
HELD_NS = 50_000_000  # while the throttle of replication holds
TRIES = 100  # attempts to read a slot while its writer changes it
PULLS = 8  # buffers of one partition in a turn


class Followed(Struct):
    """agreed: the log is known to be a part of the leader's. place: (segment base, position) of the
    next byte to copy, None to look it up; version: of the leader's list of segments then.
    paused_until_ns: CLOCK_MONOTONIC."""

    body: Follow
    reader: LogReader
    agreed: bool = False
    place: tuple[int, int] | None = None
    version: int = -1
    paused_until_ns: int = 0


class Following:
    """Runs in: io. Owner: the worker's Replicas."""

    def __init__(
        self,
        shared: Shared,
        drain: Drain,
        logs: Logs,
        durability: Durability,
        throttle: Throttle,
        errors: LogDirErrors,
    ) -> None:
        self._throttle = throttle
        self._errors = errors
        self._shared = shared
        self._drain = drain
        self._logs = logs
        self._durability = durability
        self._files = OpenFiles(256)
        self._copier = Copier(drain)
        self._followed: dict[int, Followed] = {}
        self._unsynced = set[int]()  # of durable topics: copies of which a part is not on disk
        self._truncated = dict[int, UnifiedLog]()
        """Logs by slot whose checkpoints may have more than a truncation has left."""
        self._starts: dict[int, int] = {}  # of leaders, above those of the logs here
        self._starts_due_ns = 0  # CLOCK_MONOTONIC, when they are tried again
        self._pairs: NDArray[np.int64] = np.zeros((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, body: Follow) -> None:
        """Stop appends to the slot and copy its leader. Raises KafkaError, OSError."""
        partition = self._logs.require(body.slot)
        known = self._followed.get(body.slot)
        if known is not None and known.body == body:
            return
        if known is not None:  # a log that was moved twice has other files in a folder of the same name
            self._files.forget_folder(known.body.leader_folder)
        if body.leader_slot < 0:
            partition.role.resign()
            self.forget(body.slot)
        else:
            partition.role.follow(-1)
        self._durability.forget(body.slot)
        self._drain.notify(body.slot)
        if body.leader_slot < 0:
            return
        reader = LogReader(body.leader_folder, self._files)
        self._followed[body.slot] = Followed(body, reader)
        self._list_pairs()
        self.check()

    def forget(self, slot: int) -> None:
        """Stop copying the slot."""
        found = self._followed.pop(slot, None)
        self._unsynced.discard(slot)
        if found is not None:
            self._files.forget_folder(found.body.leader_folder)
            self._list_pairs()

    def lower_checkpoints(self, slot: int) -> None:
        """Write what a truncation has left of the slot's log into the checkpoints, also if that has
        failed before, as on a full disk: a log does not grow before, whether it follows or leads.
        Raises OSError."""
        if (truncated := self._truncated.get(slot)) is None:
            return
        if truncated is self._logs.get(slot):  # or else it was loaded again, with its own checkpoints
            self._logs.truncated(slot)
        del self._truncated[slot]

    def _list_pairs(self) -> None:
        pairs = [(slot, f.body.leader_slot) for slot, f in self._followed.items() if f.agreed]
        self._pairs = np.array(pairs, np.int64).reshape(-1, 2)

    # --- copying -----------------------------------------------------------------------------------------

    def is_lagging(self) -> bool:
        """Whether a leader's log is longer than its copy here."""
        return len(self._pairs) > 0 and bool(any_lagging(self._shared.slots, self._pairs))

    def pull(self) -> bool:
        """Copy the new records of all leaders; returns whether there were any."""
        if not self.is_lagging():
            return False
        words = self._shared.slots
        ends = words[:, Slot.LOG_END]
        late = self._pairs[ends[self._pairs[:, 1]] > ends[self._pairs[:, 0]], 0].tolist()
        copied = [self._pull(slot) for slot in late]
        self._advance_starts()
        return any(copied)

    def synced(self) -> None:
        """Called when syncs have ended: wake the leaders of durable topics, whose high watermarks
        wait for the copies on disk."""
        leaders = set[int]()
        for slot in list(self._unsynced):
            words = self._shared.slots[slot]
            leaders.add(self._followed[slot].body.leader_worker)
            if words[Slot.DURABLE] >= words[Slot.LOG_END]:
                self._unsynced.discard(slot)
        for worker in leaders:
            wake_process(self._shared, self._shared.worker_process(worker))

    def check(self) -> None:
        """Called on a timer and after changes: handle leaders that are available again, high
        watermarks, log starts and pauses that end."""
        now_ns = time.monotonic_ns()
        for slot, followed in list(self._followed.items()):
            if now_ns >= followed.paused_until_ns:
                self._pull(slot)
        self._advance_starts()

    def _advance_starts(self) -> None:
        starts, self._starts = self._starts, {}
        now_ns = time.monotonic_ns()
        if starts and now_ns >= self._starts_due_ns:
            self._logs.advance_log_starts(starts)
            if any(self._is_behind(*each) for each in starts.items()):
                self._starts_due_ns = now_ns + PAUSE_NS  # there was no room to write them

    def _is_behind(self, slot: int, start: int) -> bool:
        partition = self._logs.get(slot)
        return partition is not None and partition.log_start < min(start, partition.high_watermark)

    @property
    def waiting(self) -> bool:
        """Whether ``check`` is due soon: a leader is not available yet, or a pause will end."""
        return len(self._pairs) < len(self._followed)

    def _pull(self, slot: int) -> bool:
        followed, partition = self._followed[slot], self._logs.get(slot)
        if partition is None or partition.active.is_disk_full:
            self._pause(followed)
            return False
        if partition.role.paused:
            self._pause(followed, SHORT_PAUSE_NS)
            return False
        words = self._leader(followed)
        if words is None:
            followed.agreed = False
            self._list_pairs()
            return False
        try:
            if not followed.agreed or partition.active.leader_epoch != followed.body.leader_epoch:
                self._agree(followed, partition, words)
            return self._copy(followed, partition, words)
        except CopyFailed as failed:
            self._pause(followed)
            self._logs.failures.log_failed(slot, failed.reason)
        except (CorruptLog, DamagedBatch, OSError) as error:
            gone = isinstance(error, FileNotFoundError)  # the leader's retention was faster
            if not gone:
                log.error("%s cannot be copied: %s", partition.folder, error)
                self._errors.report(followed.body.leader_folder, error)
            self._pause(followed, SHORT_PAUSE_NS if gone else PAUSE_NS)
        return False

    def _pause(self, followed: Followed, nanoseconds: int = PAUSE_NS) -> None:
        followed.agreed = False
        followed.place = None
        followed.paused_until_ns = time.monotonic_ns() + nanoseconds
        self._list_pairs()

    def _leader(self, followed: Followed) -> list[int] | None:
        """A consistent copy of the leader's slot; None until it leads with the epoch that control
        sent."""
        line = self._shared.slots[followed.body.leader_slot]
        for _ in range(TRIES):
            before = int(line[Slot.SEQUENCE])
            words: list[int] = line.tolist()
            if not before & 1 and int(line[Slot.SEQUENCE]) == before == words[Slot.SEQUENCE]:
                leads = (
                    words[Slot.STATE] == SlotState.ONLINE
                    and words[Slot.GENERATION] == followed.body.leader_generation
                    and words[Slot.LEADER_EPOCH] == followed.body.leader_epoch
                )
                return words if leads else None
        return None

    def _agree(self, followed: Followed, partition: UnifiedLog, words: list[int]) -> None:
        """Truncate the records that the leader does not have, then publish that this log follows
        the leader's epoch."""
        leader = LeaderEpochFileCache.load(followed.body.leader_folder)
        if not Path(followed.body.leader_folder).is_dir():  # it has moved: control sends the new folder
            raise FileNotFoundError(followed.body.leader_folder)
        end = agreed_end(
            partition.epochs, partition.log_end, leader, words[Slot.LOG_END], partition.high_watermark
        )
        if end < partition.log_end:
            log.info(
                "%s: truncated from offset %d to %d, like its leader",
                partition.folder,
                partition.log_end,
                end,
            )
            self._truncated[partition.slot] = partition
            _own(partition.truncate_to, end, wall_clock_ms())
        _own(self.lower_checkpoints, partition.slot)
        partition.active.note_copied_epoch(partition.epochs.latest)
        if partition.log_end < (begin := self._first_batch_offset(followed, partition, words)):
            _own(partition.truncate_fully, begin, wall_clock_ms())
            partition.active.note_copied_epoch(-1)
        followed.place = None
        followed.agreed = True
        partition.role.follow(followed.body.leader_epoch)
        self._list_pairs()
        self._wake_leader(followed)

    def _first_batch_offset(self, followed: Followed, partition: UnifiedLog, words: list[int]) -> int:
        """The lowest offset from which a copy may continue: where the leader's first batch begins.
        Records may be deleted in the middle of a batch (UnexpectedAppendOffsetException in Kafka's
        Partition.appendRecordsToFollower)."""
        log_start = words[Slot.LOG_START]
        if partition.log_end >= log_start:
            return log_start
        ends = words[Slot.ACTIVE_BASE], words[Slot.ACTIVE_END]
        first = followed.reader.locate(log_start, *ends, words[Slot.SEGMENTS_VERSION])
        return log_start if first is None else min(first.base_offset, log_start)

    def _copy(self, followed: Followed, partition: UnifiedLog, words: list[int]) -> bool:
        if partition.log_end < self._first_batch_offset(followed, partition, words):
            followed.agreed = False
            return False
        copied = False
        limits = self._throttle.limits(partition.config, partition.partition, followed.body.leader_worker)
        for _ in range(PULLS):
            if partition.log_end >= words[Slot.LOG_END]:
                break
            if limits and self._throttle.holds(partition.slot, limits):
                self._pause(followed, HELD_NS)
                break
            if not self._copy_some(followed, partition, words, limits):
                self._pause(followed, SHORT_PAUSE_NS)
                break
            copied = True
        mark = words[Slot.HIGH_WATERMARK]
        if copied or mark > partition.high_watermark:
            partition.role.publish_copied(mark)
        if copied:
            if partition.published.is_durable:
                self._unsynced.add(partition.slot)
                self._durability.flush((partition.slot,))
            self._wake_leader(followed)
        if words[Slot.LOG_START] > partition.log_start:
            self._starts[partition.slot] = words[Slot.LOG_START]
        return copied

    def _copy_some(
        self, followed: Followed, partition: UnifiedLog, words: list[int], limits: list[tuple[int, int]]
    ) -> bool:
        """One buffer from the leader's file; False when there is nothing to read now."""
        end_base, end_position = words[Slot.ACTIVE_BASE], words[Slot.ACTIVE_END]
        version = words[Slot.SEGMENTS_VERSION]
        if followed.place is None or followed.version != version:
            found = followed.reader.locate(partition.log_end, end_base, end_position, version)
            if found is None:
                return False
            followed.place, followed.version = (found.segment_base, found.position), version
        base, position = followed.place
        file = self._files.get(followed.body.leader_folder, base, files.LOG)
        end = end_position if base == end_base else file.size()
        if position >= end:  # all of the segment is copied: the next look-up finds its successor
            followed.place = None
            return base != end_base
        taken = self._copier.copy(partition, file.fd, position, end)
        if limits:
            self._throttle.copied(limits, taken)
        followed.place = base, position + taken
        return True

    def _wake_leader(self, followed: Followed) -> None:
        wake_process(self._shared, self._shared.worker_process(followed.body.leader_worker))


def _own(step: Callable[..., object], *arguments: int) -> None:
    """Run a step on this log: its errors are errors of this log dir."""
    try:
        step(*arguments)
    except OSError as error:
        raise CopyFailed(error if error.errno else OSError(errno.EIO, str(error))) from error
