"""The producers of one open log (Kafka's ProducerStateManager): in the worker's table while it is
open, in snapshots beside its segments."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kbroker.io.append.producer_table import EndTxnMarker, ProducerTable
from kbroker.io.files import producer_snapshot
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.partition.open_transactions import OpenTransactions
from kbroker.io.recovery.producer_replay import ProducerReplay
from kbroker.log import files, transaction_index
from kbroker.log.transaction_index import AbortedTransaction


class ProducerStateManager:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog. table: of all logs of the worker;
    slot: of this one."""

    def __init__(self, table: ProducerTable, slot: int, segments: LogSegments) -> None:
        self._table = table
        self._slot = slot
        self._segments = segments
        self._open = OpenTransactions(table, slot)

    def entries(self) -> list[ProducerEntry]:
        """All of them, by producer id."""
        return self._table.entries(self._slot)

    def states(self, after: int, limit: int) -> list[list[int]]:
        """For DescribeProducers: the fields of ProducerState, by producer id."""
        return self._table.states(self._slot, after, limit)

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace them."""
        self.drop()
        for entry in entries:
            self._table.put(self._slot, entry)

    def drop(self) -> None:
        """Forget all."""
        self._open.forget()
        self._table.drop(self._slot)

    def snapshot(self, offset: int) -> None:
        """Write a snapshot; it is synced with the segment."""
        producer_snapshot.write(self._segments.folder, offset, self._table.snapshot(self._slot), sync=False)

    def last_snapshot(self, names: Sequence[str], sync: bool) -> None:
        """Write the snapshot of a clean close, at the log's end, and remove that of an earlier
        close (loading would remove it). names: files in the folder."""
        folder, end = self._segments.folder, self._segments.active.next_offset
        snapshots = files.snapshots_among(names)
        if end > (snapshots[-1] if snapshots else 0):
            producer_snapshot.write(folder, end, self._table.snapshot(self._slot), sync)
            snapshots.append(end)
        for stray in producer_snapshot.strays(snapshots, self._segments.base_offsets):
            Path(files.path(folder, stray, files.SNAPSHOT)).unlink(missing_ok=True)

    def reload(self, now_ms: int) -> None:
        """Rebuild the producers from snapshot and batches after a truncation
        (truncateAndReload)."""
        segments = self._segments
        end = segments.active.next_offset
        expired_before_ms = now_ms - self._table.expiration_ms
        replay = ProducerReplay(segments.folder, segments.base_offsets[0], expired_before_ms)
        replay.load_snapshot(end)
        replay.segments(segments.shapes(), end)
        self.load(replay.entries())
        segments.active.first_unstable = replay.first_unstable_offset

    def complete_transaction(self, marker: EndTxnMarker) -> None:
        """Close the producer's open transaction after its marker is in the log, and note it when
        aborted (completeTxn).

        The producer keeps its sequences unless the marker carries a newer epoch: then they start
        again. Raises OSError: the transaction stays open, so that nothing of it is read; its next
        marker ends it."""
        if marker.producer_id < 0:  # as in Kafka it is no producer's
            return
        active, end = self._segments.active, marker.offset
        self._open.note(active.row)
        first_offset = self._table.end_transaction(self._slot, marker)
        first_unstable = active.first_unstable
        if 0 <= first_offset <= first_unstable:  # it was the earliest one: find the next
            first_unstable = self._open.earliest()
        if not marker.commit and first_offset >= 0:
            stable = first_unstable if first_unstable >= 0 else end + 1
            aborted = AbortedTransaction(marker.producer_id, first_offset, end, stable)
            try:
                transaction_index.append_entry(self._segments.folder, active.base_offset, aborted)
            except OSError:
                self._table.reopen_transaction(self._slot, marker.producer_id, first_offset)
                self._open.reopened(marker.producer_id, first_offset)
                raise
            active.note_aborted(end)
        active.first_unstable = first_unstable
