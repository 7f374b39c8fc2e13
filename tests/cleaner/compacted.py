"""A compacted log with its cleaner and IO worker in one thread, and what a consumer finds in it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kbroker.cleaner.cleaned_segment import CleanedSegment
from kbroker.cleaner.log_cleaner import Cleaned, LogCleaner
from kbroker.cleaner.offset_map import OffsetMap
from kbroker.cleaner.throttle import Throttle
from kbroker.config.topic import TopicConfig
from kbroker.io.append.rows import AppendRow
from kbroker.io.cleaning import Cleaning
from kbroker.io.files.log_dir import LogDir
from kbroker.io.partition import segment_swap
from kbroker.io.partition import unified_log as log_module
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.cleaning_messages import BeginCleaning, CleanableLog, CleanableLogs, EndCleaning
from kbroker.ipc.layout import Slot
from kbroker.log import transaction_index
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.log.walk import batches_of, walk
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import (
    ControlType,
    Record,
    RecordBatch,
    build_batch,
    build_control_batch,
    read_records,
)
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.io.deaths import Died
from tests.io.three_logs import WAIT_S

Pair = tuple[bytes | None, bytes | None]
DAY = 86_400_000


class Compacted:
    """Slot 3. clock: the wall clock of worker and cleaner. steps: names of those that the last
    cleaning took."""

    def __init__(
        self, root: Path, map_bytes: int = 1 << 16, buffer_bytes: int = 0, **settings: object
    ) -> None:
        defaults = {"cleanup_policy": "compact", "segment_bytes": 2000, "min_cleanable_dirty_ratio": 0}
        self.log = Log(root, topic_config(**{**defaults, **settings}))
        self.log.open()
        self.clock = NOW
        self.steps: list[str] = []
        self._kill_at = -1
        self._map = OffsetMap(map_bytes, 0.9)
        self._buffer_bytes = buffer_bytes
        self.sequences: dict[int, int] = {}
        self.woken: list[int] = []
        self.cleaning = self._new_cleaning()

    def _new_cleaning(self) -> Cleaning:
        return Cleaning(OneLog(self.log.partition), self.woken.append, lambda: self.clock)

    @property
    def partition(self) -> UnifiedLog:
        return self.log.partition

    # --- writing -----------------------------------------------------------------------------------------

    def append(
        self,
        pairs: Sequence[Pair],
        codec: Codec = Codec.NONE,
        producer: int | None = None,
        transactional: bool = False,
    ) -> int:
        """One batch; gives its base offset. producer: idempotent, epoch 1."""
        identity = (-1, -1, -1)
        if producer is not None:
            first = self.sequences.get(producer, 0)
            identity = (producer, 1, first)
            self.sequences[producer] = first + len(pairs)
        records = [(key, value, (), self.clock + n) for n, (key, value) in enumerate(pairs)]
        base = self.log.append(
            build_batch(records, producer=identity, codec=codec, transactional=transactional), self.clock
        )
        self._publish()
        return base

    def end(self, producer: int, commit: bool) -> None:
        """A transaction's marker, and what the worker does after it."""
        known = self.log.producers.get(3, producer)
        first = known.current_txn_first_offset if known else -1
        type_ = ControlType.COMMIT if commit else ControlType.ABORT
        marker = build_control_batch(
            type_, producer_id=producer, producer_epoch=1, coordinator_epoch=0, timestamp_ms=self.clock
        )
        offset = self.log.append(marker, self.clock)
        stable = min(self._open_transactions(), default=offset + 1)
        if not commit and first >= 0:
            self._note_aborted(AbortedTransaction(producer, first, offset, stable))
        self._publish()

    def _note_aborted(self, aborted: AbortedTransaction) -> None:
        active = self.partition.active
        transaction_index.append_entry(str(self.log.folder), active.base_offset, aborted)
        active.note_aborted(aborted.last_offset)

    def roll(self) -> None:
        self.partition.roll(self.clock)

    def _open_transactions(self) -> list[int]:
        entries = self.log.producers.entries(3)
        return [entry.current_txn_first_offset for entry in entries if entry.current_txn_first_offset >= 0]

    def _publish(self) -> None:
        self.log.row[AppendRow.FIRST_UNSTABLE] = min(self._open_transactions(), default=-1)
        self.partition.published.publish()

    # --- cleaning ----------------------------------------------------------------------------------------

    def dirt(self) -> CleanableLog | None:
        """What the worker says of the log."""
        self.partition.durability.flush()
        found = self.cleaning.cleanable(CleanableLogs())
        return found[0] if found else None

    def clean(self, kill_at: int = -1) -> Cleaned | None:
        """As the cleaner does, whatever the dirty ratio; kill_at: number of the step at which
        everything is killed."""
        self.partition.durability.flush()
        self._kill_at, self.steps = kill_at, []
        generation = int(self.log.words[Slot.GENERATION])
        with self._watched():
            job = self.cleaning.begin(BeginCleaning(3, generation))
            if job is None:
                return None
            cleaner = LogCleaner(
                self._map, self._buffer_bytes, Throttle(1e18), self.cleaning.swap, self._step
            )
            done = cleaner.clean(job, self.clock)
            self.cleaning.end(EndCleaning(3, generation, done.end))
            self._wait_for_checkpoint()
            return done

    def _wait_for_checkpoint(self) -> None:
        """Nothing writes into the folder after a cleaning: the test may remove it."""
        job = self.cleaning._offsets._thread._job
        if job is not None:
            job.result(WAIT_S)

    def _step(self, name: str) -> None:
        if len(self.steps) == self._kill_at:
            raise Died(name)
        self.steps.append(name)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        def steps(*arguments: object) -> Iterator[str]:
            for name in segment_swap.swap_steps(*arguments):
                yield name
                self._step(name)

        def remove(segment: CleanedSegment) -> None:
            segment.close() if len(self.steps) == self._kill_at else whole(segment)

        whole = CleanedSegment.remove
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_module, "swap_steps", steps)
            patch.setattr(CleanedSegment, "remove", remove)
            yield

    def reopen(self, clean: bool = True, recovery_point: int = 0) -> None:
        """As after a restart; the cleaner's checkpoint is only there after a clean stop."""
        first_dirty = self.partition.first_dirty if clean else -1
        self.log.reopen(clean=clean, recovery_point=recovery_point, log_start=self.partition.log_start)
        self.partition.cleaned_up_to(first_dirty)
        self.cleaning = self._new_cleaning()
        self._publish()

    # --- reading -----------------------------------------------------------------------------------------

    def batches(self) -> list[RecordBatch]:
        return [
            placed.batch._replace(data=memoryview(bytes(placed.batch.data)))
            for placed in walk(LogReader(str(self.log.folder), OpenFiles()))
        ]

    def segments(self) -> list[list[RecordBatch]]:
        """The batches of each segment file, whatever is in the others."""
        reader = LogReader(str(self.log.folder), OpenFiles())
        views = reader.views(0, *WHOLE_LOG)
        return [[placed.batch for placed in batches_of(view)] for view in views]

    def records(self) -> list[Record]:
        """What read_committed consumers get, from the beginning up to the last stable offset."""
        stable = int(self.log.words[Slot.LAST_STABLE])
        reader = LogReader(str(self.log.folder), OpenFiles())
        aborted = sorted(aborted_transactions(reader, 0, 1 << 60), key=lambda entry: entry.first_offset)
        found: list[Record] = []
        aborting: set[int] = set()
        for batch in self.batches():
            assert batch.crc_is_valid
            while aborted and aborted[0].first_offset <= batch.last_offset:
                aborting.add(aborted.pop(0).producer_id)
            if batch.is_control:
                if batch.record_count and next(read_records(batch)).key == b"\0\0\0\0":
                    aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                found += [record for record in read_records(batch) if record.offset < stable]
        return found

    def latest(self) -> dict[bytes, bytes | None]:
        """Key to last value; None for a tombstone."""
        return {record.key: record.value for record in self.records() if record.key is not None}


class OneLog:
    """The part of Logs that Cleaning uses, with one log."""

    def __init__(self, partition: UnifiedLog) -> None:
        self._partition = partition
        self.failures = self
        self.configured_listeners: list[Callable[[UnifiedLog], None]] = []

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter([self._partition])

    def get(self, _: int) -> UnifiedLog:
        return self._partition

    require = get

    def configure(self, partition: UnifiedLog, config: TopicConfig) -> None:
        partition.configure(config)
        for listener in self.configured_listeners:
            listener(partition)

    def log_dir(self, path: str) -> LogDir:
        return LogDir(path)

    def log_failed(self, _: int, error: OSError) -> None:
        raise error
