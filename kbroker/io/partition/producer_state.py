"""The producers of one open log (Kafka's ProducerStateManager): in the worker's table while it is
open, in snapshots beside its segments."""

import time
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.producer_table import EndTxnMarker, ProducerTable
from kbroker.io.append.rows import AppendRow
from kbroker.io.files import producer_snapshot
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.io.partition.log_segments import LogSegments
from kbroker.io.recovery.producer_replay import ProducerReplay
from kbroker.log import files, transaction_index
from kbroker.log.transaction_index import AbortedTransaction

FEW: Final = 64
"""Entries of the heap that are kept, whether or not their transactions are open."""
LONG_S: Final = 0.002
"""CPU time of a long snapshot: of some thousand producers. A log may be rolled for each of many
batches in one turn."""
PAUSES: Final = 500
"""The next snapshot of the log comes after so many times as long."""


class ProducerStateManager:
    """Runs in: io. Owner: the IO worker, by the log's UnifiedLog. table: of all logs of the worker;
    slot: of this one."""

    def __init__(self, table: ProducerTable, slot: int, segments: LogSegments) -> None:
        self._table = table
        self._slot = slot
        self._segments = segments
        self._open = OpenTransactions(table, slot)
        self._next_s = 0.0

    def entries(self) -> list[ProducerEntry]:
        """All producers, by producer id."""
        return self._table.entries(self._slot)

    def states(self, after: int, limit: int) -> list[list[int]]:
        """Producers for DescribeProducers, ordered by id: the fields of ProducerState. after: a
        producer id. limit: maximum number."""
        return self._table.states(self._slot, after, limit)

    def last_records(self) -> bytes:
        """The last records of producers, for a cleaning: see CleaningJob."""
        return self._table.last_records(self._slot)

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace all producers by these."""
        self.drop()
        for entry in entries:
            self._table.put(self._slot, entry)

    def drop(self) -> None:
        """Forget all producers."""
        self._open.forget()
        self._table.drop(self._slot)

    def start_again(self) -> None:
        """Forget all producers, and remove their snapshots: nothing of them is left in the log
        (ProducerStateManager.truncateFullyAndStartAt)."""
        self.drop()
        folder = self._segments.folder
        for offset in files.list_snapshots(folder):
            Path(files.path(folder, offset, files.SNAPSHOT)).unlink(missing_ok=True)

    def snapshot(self, offset: int) -> None:
        """Write a snapshot; it is synced with the segment. A client may make very many producers,
        and segments of one record: while snapshots take long, few segments have one. A replay
        begins at the last one that there is."""
        now_s, began_s = time.monotonic(), time.thread_time()
        if now_s < self._next_s:
            return
        producer_snapshot.write(self._segments.folder, offset, self._table.snapshot(self._slot), sync=False)
        if (took_s := time.thread_time() - began_s) > LONG_S:
            self._next_s = now_s + PAUSES * took_s

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

    def reload(self, now_ms: int, reindex: bool = False) -> None:
        """Rebuild the producers from snapshot and batches after a truncation (truncateAndReload).
        reindex: also the active segment's transaction index, which a full disk may have left
        without the entry of a marker in the log."""
        segments, active = self._segments, self._segments.active
        end, base = active.next_offset, active.base_offset
        expired_before_ms = now_ms - self._table.expiration_ms
        replay = ProducerReplay(segments.folder, segments.base_offsets[0], expired_before_ms)
        replay.load_snapshot(base if reindex else end)
        if reindex:
            transaction_index.reset_index(segments.folder, base)
        replay.segments(segments.shapes(), end, aborted_in=(base,) if reindex else ())
        self.load(replay.entries())
        active.first_unstable = replay.first_unstable_offset
        if reindex and transaction_index.read_index(segments.folder, base):
            active.note_aborted(end - 1)

    def complete_transaction(self, marker: EndTxnMarker) -> int:
        """Close the producer's open transaction after its marker is in the log, and note it when
        aborted (completeTxn). Returns its first offset, -1 when none was open.

        The producer keeps its sequences unless the marker carries a newer epoch: then they start
        again. Raises OSError: the transaction stays open, so that nothing of it is read; its next
        marker ends it."""
        if marker.producer_id < 0:  # as in Kafka it is no producer's
            return -1
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
        return first_offset


class OpenTransactions:
    """The open transactions of one log, by their first offset.

    Runs in: io. Owner: the log's ProducerStateManager. The heap has (first offset, producer id) of
    all open transactions but those in the row, and some that have ended; None: not known. Clients
    may make very many producers, so a walk over all of them at each end of a transaction would
    delay all others. So the kernels note the transactions that begin in the log's row.
    """

    def __init__(self, table: ProducerTable, slot: int) -> None:
        self._table = table
        self._slot = slot
        self._heap: list[tuple[int, int]] | None = None
        self._limit = FEW

    def forget(self) -> None:
        """The producers of the log are replaced."""
        self._heap = None

    def note(self, row: NDArray[np.int64]) -> None:
        """Take over the transactions that have begun since the last call. row: of the log."""
        count = int(row[AppendRow.OPENED])
        row[AppendRow.OPENED] = 0
        if count > AppendRow.MAX_OPENED:
            self._heap = None
        if self._heap is None:
            return
        for at in range(AppendRow.OPENINGS, AppendRow.OPENINGS + 2 * count, 2):
            heappush(self._heap, (int(row[at]), int(row[at + 1])))
        if len(self._heap) > self._limit:
            self._heap = [each for each in self._heap if self._table.is_open(self._slot, *each)]
            heapify(self._heap)
            self._limit = max(FEW, 2 * len(self._heap))

    def earliest(self) -> int:
        """First offset of the earliest open transaction, -1 when none is open. `note` has been
        called."""
        if self._heap is None:
            self._heap = self._table.open_transactions(self._slot)
        while self._heap and not self._table.is_open(self._slot, *self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else -1

    def reopened(self, producer_id: int, first_offset: int) -> None:
        """The end of a transaction has been undone."""
        if self._heap is not None:
            heappush(self._heap, (first_offset, producer_id))
