"""The files, append row and slot of one open log: opening, rolling, closing.

The drain kernel does the appending. Subclasses add syncing (synced_log.py), truncation (cut_log.py),
replication (replica_log.py), and deletion, moves and queries (partition.py).
"""

import logging
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.io.append import active_row
from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files import checkpoint, producer_snapshot
from kbroker.io.files.leader_epochs import LeaderEpochs
from kbroker.io.files.producer_entry import ProducerEntry
from kbroker.io.files.segment import ActiveState, Segment, SegmentFds, finish, open_files, reserve
from kbroker.io.partition.deletions import Deletions
from kbroker.io.partition.flush_job import Unsynced
from kbroker.io.partition.slot_group import publish
from kbroker.io.recovery import closed_logs, recovery
from kbroker.io.recovery.closed_logs import ClosedLog
from kbroker.io.recovery.loaded_log import LoadedLog, LoadRequest, TrustedEnd
from kbroker.io.recovery.segment_scan import Progress
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import files
from kbroker.log.aborted_transactions import seal
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Words = NDArray[np.int64]
NO_CUT = 1 << 62


class Producers(Protocol):
    """The part of ProducerTable that a partition uses."""

    def entries(self, slot: int) -> list[ProducerEntry]: ...
    def put(self, slot: int, entry: ProducerEntry) -> None: ...
    def drop(self, slot: int) -> None: ...


class OpenLog:
    """Log of one partition. Runs in: io. Owner: the IO worker. Not thread-safe, but for `recover` and FlushJob.run.

    slot: its slot number; words: the shared Slot, of which this writes the IO worker's group; row: the
    worker's AppendRow, the truth about the active segment while the log is open. Times are wall clock ms.
    OSError out of any method means that the log dir cannot be trusted any more.
    """

    def __init__(
        self,
        slot: int,
        words: Words,
        row: Words,
        log_dir: str,
        topic: str,
        partition: int,
        config: TopicConfig,
        producers: Producers,
        deletions: Deletions,
        producer_expiration_ms: int = 86_400_000,
    ) -> None:
        self.slot = slot
        self.words = words
        self.row = row
        self.topic = topic
        self.partition = partition
        self.folder = f"{log_dir}/{files.folder_name(topic, partition)}"
        self.config = config
        self.topic_id = b""
        self.log_start = 0
        self.first_dirty = -1  # everything below was compacted; -1 when nothing was
        self.replicated = False  # the high watermark is the replication's (io/replication)
        self.leads = True  # False: a follower, whose log only grows by copying
        self.epoch_start = 0  # see Slot.EPOCH_START
        self.known_mark: int | None = None  # high watermark that a predecessor of this run published
        self.epochs = LeaderEpochs(self.folder)
        self._producers = producers
        self._deletions = deletions
        self._producer_expiration_ms = producer_expiration_ms
        self._closed: list[Segment] = []  # oldest first, without the active one
        self._unsynced = Unsynced()
        self._names_synced = False  # folder and file names, since the log was opened
        self._online = False
        self._fds: SegmentFds | None = None  # of the active segment; None while the log rests
        self._created_ms = 0
        self._jitter_ms = 0
        self.reserve_most = 0  # see reserve_kernel
        self.paused = False  # nothing is appended or copied while it switches its log dir
        self.cuts, self.lowest_cut = 0, NO_CUT  # truncations that are done, the least offset of all

    # --- opening -----------------------------------------------------------------------------------------

    def create_folder(self, topic_id: bytes) -> bool:
        """Make the folder and its partition.metadata where they are missing; whether the folder is new (what
        checkpoints say of that name is then of a deleted predecessor). Raises OSError, CorruptCheckpoint, and
        KafkaError(INCONSISTENT_TOPIC_ID) when the folder is of another topic of that name."""
        self.topic_id = topic_id
        new = not Path(self.folder).exists()
        if new:
            Path(self.folder).mkdir(parents=True)
        found = None if new else checkpoint.read_topic_id(self.folder)
        if found is None:
            checkpoint.write_topic_id(self.folder, topic_id)
        elif found != topic_id:
            here, wanted = checkpoint.format_uuid(found), checkpoint.format_uuid(topic_id)
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID, f"{self.folder} is of topic id {here}, not {wanted}"
            )
        return new

    def create(self, leader_epoch: int) -> LoadedLog:
        """In place of `recover`, for a folder that was made just now: there is nothing to look for. What its first
        sync puts on disk counts from then on. Raises OSError."""
        open_files(self.folder, 0).close()
        epochs = LeaderEpochs(self.folder)
        if self.leads and leader_epoch >= 0:
            epochs.assign(leader_epoch, 0, sync=False)  # here, because a thread runs this
        return LoadedLog(
            closed=[],
            active=ActiveState(0, 0, 0, max_timestamp_offset=0),
            log_start=0,
            recovery_point=0,
            epochs=epochs,
        )

    def recover(
        self,
        clean: bool,
        recovery_point: int,
        log_start: int,
        now_ms: int,
        trusted_end: TrustedEnd | None = None,
        progress: Progress | None = None,
    ) -> LoadedLog:
        """Load the files; touches nothing shared, so it may run in any thread. Then `bring_online`.

        Raises OSError, CorruptLog."""
        request = LoadRequest(
            folder=self.folder,
            clean=clean,
            recovery_point=recovery_point,
            log_start=log_start,
            index_interval=self.config.index_interval_bytes,
            index_limit=self.config.segment_index_bytes,
            now_ms=now_ms,
            trusted_end=trusted_end,
            sync=not self.config.write_caching,
            producer_expiration_ms=self._producer_expiration_ms,
            progress=progress,
        )
        return recovery.load(request)

    def recall(
        self, closed: ClosedLog, topic_id: bytes, recovery_point: int, log_start: int, now_ms: int
    ) -> LoadedLog | None:
        """Replaces `create_folder` and `recover`: the state saved at the last shutdown, None when the files
        do not match it. recovery_point, log_start: of the checkpoints."""
        self.topic_id = topic_id
        expired_before_ms = now_ms - self._producer_expiration_ms
        return closed_logs.load(closed, self.folder, topic_id, recovery_point, log_start, expired_before_ms)

    def bring_online(self, loaded: LoadedLog, leader_epoch: int, now_ms: int) -> None:
        """Take a loaded log over, lead it with an epoch, and let the drain kernel append."""
        self._closed = loaded.closed
        self._fds = None
        self._online = True
        self.log_start = loaded.log_start
        self.epochs = loaded.epochs
        self._deletions.add(loaded.deleted, now_ms + self.config.file_delete_delay_ms)
        self._producers.drop(self.slot)
        for entry in loaded.producers:
            self._producers.put(self.slot, entry)
        self._names_synced = False
        self.row[:] = 0
        self.row[AppendRow.FIRST_UNSTABLE] = loaded.first_unstable
        self.row[AppendRow.LAST_ABORTED] = loaded.active.next_offset - 1 if loaded.has_aborted else -1
        active_row.fill(self.row, loaded.active, None)
        self._start_segment(now_ms)
        if self.leads:
            self._lead(max(leader_epoch, self.epochs.latest), sync=False)  # the first flush syncs it
        else:
            self.row[AppendRow.LEADER_EPOCH] = -1  # of no leader yet
        self.let_append()
        self.epoch_start = self._first_epoch_start()
        self.words[Slot.MAX_TIMESTAMP] = -1
        self._publish(
            SlotState.ONLINE,
            high_watermark=self._first_mark(loaded.active.next_offset),
            durable=loaded.recovery_point,
            changed=True,
        )

    def _first_mark(self, end: int) -> int:
        """High watermark of a log that was just opened."""
        return end

    def _first_epoch_start(self) -> int:
        """Slot.EPOCH_START of a log that was just opened."""
        return 0

    def let_append(self) -> None:
        """Open the append row to the drain kernel, or keep it closed in a follower and while it is paused."""
        self.row[AppendRow.STATE] = AppendState.OPEN if self.leads and not self.paused else AppendState.CLOSED

    def open(self, clean: bool, recovery_point: int, log_start: int, leader_epoch: int, now_ms: int) -> None:
        """`recover` and `bring_online` in one, for a single log."""
        self.bring_online(self.recover(clean, recovery_point, log_start, now_ms), leader_epoch, now_ms)

    @property
    def is_open(self) -> bool:
        return self._online

    # --- offsets -----------------------------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return int(self.row[AppendRow.NEXT_OFFSET])

    @property
    def high_watermark(self) -> int:
        return int(self.words[Slot.HIGH_WATERMARK])

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk; what recovery-point-offset-checkpoint is to hold."""
        return int(self.words[Slot.DURABLE])

    @property
    def base_offsets(self) -> list[int]:
        return [*(segment.base_offset for segment in self._closed), int(self.row[AppendRow.BASE_OFFSET])]

    @property
    def has_rolled(self) -> bool:
        """Whether a segment was closed since the last sync."""
        return self._unsynced.first_base is not None

    @property
    def first_unsynced_base(self) -> int:
        """Base offset of the oldest segment that is not closed and synced."""
        rolled = self._unsynced.first_base
        return self.base_offsets[-1] if rolled is None else rolled

    @property
    def size(self) -> int:
        return int(self.row[AppendRow.OTHER_BYTES] + self.row[AppendRow.POSITION])

    def _lead(self, leader_epoch: int, sync: bool = True) -> None:
        if leader_epoch >= 0:
            # an epoch without records before it can be rebuilt: creating partitions waits for no disk
            self.epochs.assign(leader_epoch, self.log_end, sync=sync and self.log_end > self.log_start)
            crash_point("leader change: epoch in the log dir")
        self.row[AppendRow.LEADER_EPOCH] = leader_epoch

    # --- segments ----------------------------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Close the active segment and begin a new one at the log's end. An empty active segment stays, and
        its age starts again."""
        state = active_row.state_of(self.row)
        fds = self._open_fds()
        if state.position > 0:
            finish(fds, state)
            seal(files.path(self.folder, state.base_offset, files.TXN_INDEX))
            crash_point("roll: old segment finished")
            following = open_files(self.folder, state.next_offset)
            crash_point("roll: new files created")
            producer_snapshot.write(
                self.folder, state.next_offset, self._producers.entries(self.slot), sync=False
            )
            crash_point("roll: snapshot written")
            self._closed.append(Segment(state.base_offset, state.position, now_ms, state.max_timestamp))
            self._unsynced.add(state.base_offset, fds)
            self._fds = following
            base = state.next_offset
            active_row.fill(self.row, ActiveState(base, 0, base, max_timestamp_offset=base), following)
        self._start_segment(now_ms)
        self._publish(changed=True)

    def _start_segment(self, now_ms: int) -> None:
        self._created_ms = now_ms
        self._jitter_ms = active_row.new_jitter(self.config)
        if self.config.preallocate:
            reserve(self._open_fds().log, self.config.segment_bytes)
        active_row.begin_reserving(self.row, 0 if self.config.preallocate else self.reserve_most)
        self.row[AppendRow.OTHER_BYTES] = sum(segment.size for segment in self._closed)
        active_row.apply_config(self.row, self.config, self._created_ms, self._jitter_ms)

    def configure(self, config: TopicConfig) -> None:
        """New settings, from the next append or retention run on."""
        self.config = config
        active_row.apply_config(self.row, config, self._created_ms, self._jitter_ms)

    # --- descriptors -------------------------------------------------------------------------------------

    def open_files(self) -> None:
        """Let the drain kernel append: open the active segment's files if they are not. Raises OSError."""
        self._open_fds()

    def rest(self) -> None:
        """Close the active segment's files until somebody needs them. Unsynced data must not rest: nobody
        would see an error of writing it back."""
        if self._fds is not None:
            self._fds.close()
            self._fds = None
            active_row.point(self.row, None)

    def _open_fds(self) -> SegmentFds:
        if not self._online:
            raise ValueError(f"{self.folder} is not open")
        if self._fds is None:
            self._fds = open_files(self.folder, int(self.row[AppendRow.BASE_OFFSET]))
            active_row.point(self.row, self._fds)
        return self._fds

    # --- closing -----------------------------------------------------------------------------------------

    def abandon(self, state: int = SlotState.OFFLINE) -> None:
        """Let go of the files as they are: the log dir failed, or the partition is being deleted."""
        if self._online:
            self.row[AppendRow.STATE] = 0
            if self._fds is not None:
                self._unsynced.add(int(self.row[AppendRow.BASE_OFFSET]), self._fds)
            self._release(state)

    def _release(self, state: int, durable: int | None = None) -> None:
        self._publish(state, durable=durable)
        self.known_mark = self.high_watermark
        self._unsynced.drop()
        self.row[AppendRow.ROLLED] = 0
        self._online = False
        self._fds = None
        self._producers.drop(self.slot)

    def _publish(
        self,
        state: int | None = None,
        *,
        high_watermark: int | None = None,
        place: tuple[int, int] | None = None,
        durable: int | None = None,
        changed: bool = False,
        changing: bool = False,
    ) -> None:
        rolled = self.row[AppendRow.ROLLED] = self.has_rolled
        self.row[AppendRow.PLAIN_SYNC] = self._names_synced and not rolled
        publish(
            self.words,
            self.row,
            self.log_start,
            self.epochs.at(self.log_start),
            len(self._closed) + 1,
            self.epoch_start,
            state=state,
            high_watermark=high_watermark,
            high_watermark_place=place,
            durable=durable,
            changed=changed,
            changing=changing,
        )
