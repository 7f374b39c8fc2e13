"""Rebuilds the producer state of a partition from its newest snapshot and the batch headers after
it.

Kafka's ProducerStateManager.truncateAndReload and ProducerAppendInfo with origin REPLICATION:
batches in the log were accepted once, so nothing is checked again.
"""

import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.files import producer_snapshot
from kbroker.io.files.producer_snapshot import CorruptSnapshot, ProducerEntry
from kbroker.io.recovery.segment_scan import Scan, ScannedRows
from kbroker.kernels import rebuild
from kbroker.kernels.producer_rows import Producer
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.log import files, transaction_index
from kbroker.log.errors import CorruptLog
from kbroker.log.transaction_index import AbortedTransaction
from kbroker.protocol import batch_layout as b

log = logging.getLogger(__name__)

Rows = NDArray[np.int64]
ABORT, COMMIT = 0, 1
MORE_PRODUCERS = 1024
MAX_ENDED = 4096  # even
SLOT = 0  # the table is private to one replay


class ProducerReplay:
    """Producers of one partition while its log is loaded. Runs in: io, in any thread. Owner: the
    loader.

    offset: everything below it is in the state. ended: (first offset, marker's offset) of the
    replayed transactions whose markers are not below the high watermark; one of many may stand for
    several.
    """

    def __init__(self, folder: str, first_base: int, expired_before_ms: int, mark: int | None = None) -> None:
        """first_base: of the oldest segment; the log may start after it. mark: the high watermark
        is not below it; None: it is the log's end, or `ended` is not used."""
        self.ended: list[tuple[int, int]] = []
        self._mark = mark
        self.folder = folder
        self.offset = first_base
        self._expired_before_ms = expired_before_ms
        self._table = ProducerTable(64)

    def load_snapshot(self, at_most: int, offsets: list[int] | None = None) -> None:
        """Start from the newest whole snapshot at or below an offset; later ones and damaged ones
        are removed.

        offsets: of the existing snapshots, ascending, if known. Unlike in Apache Kafka, the
        snapshot of the oldest segment counts, too: a producer may repeat a batch that was deleted
        from the log before the producer heard that it had been appended."""
        for offset in reversed(files.list_snapshots(self.folder) if offsets is None else offsets):
            if offset > at_most:
                self._remove(offset)
                continue
            try:
                entries = producer_snapshot.read(self.folder, offset)
            except CorruptSnapshot as damage:
                log.warning("%s: snapshot at offset %d skipped: %s", self.folder, offset, damage)
                self._remove(offset)
                continue
            for entry in entries:
                if entry.current_txn_first_offset >= 0 or entry.last_timestamp > self._expired_before_ms:
                    self._table.put(SLOT, entry)
            self.offset = offset
            return

    def replay(self, segment_base: int, rows: Rows, count: int, index_aborted: bool) -> None:
        """Apply the batches of a chunk of a segment. index_aborted: write aborted transactions to
        its .txnindex."""
        start = 0
        while start < count:
            table = self._table
            start = rebuild.replay_producers(rows, start, count, self.offset, table.rows)
            if start < count:
                if rows[start, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CONTROL:
                    aborted = self._end_transaction(rows[start].tolist())
                    if aborted and index_aborted:
                        transaction_index.append_entry(self.folder, segment_base, aborted)
                    start += 1
                else:
                    table.make_room(MORE_PRODUCERS)
        self.offset = max(self.offset, int(rows[count - 1, ScannedBatch.LAST_OFFSET]) + 1)

    def segments(
        self,
        segments: Sequence[tuple[int, int]],
        end_offset: int,
        aborted_in: Collection[int] = (),
        snapshot_at: Collection[int] = (),
        scanned: ScannedRows | None = None,
    ) -> None:
        """Replay segments, (base offset, bytes) oldest first, up to the log's end.

        aborted_in: bases of those whose .txnindex is written; snapshot_at: bases at which a
        snapshot is taken, if the replay began before them; scanned: batches that need not be read
        again. Raises CorruptLog, OSError."""
        began = self.offset
        for n, (base, size) in enumerate(segments):
            following = segments[n + 1][0] if n + 1 < len(segments) else end_offset
            if following > self.offset:
                if base in snapshot_at and base > began:
                    self.snapshot(base)
                known = scanned.of(base) if scanned is not None else None
                self._segment(base, size, base in aborted_in, known)
        self.offset = max(self.offset, end_offset)

    def _segment(self, base: int, size: int, index_aborted: bool, known: Sequence[Rows] | None) -> None:
        if known is not None:
            for rows in known:
                self.replay(base, rows, len(rows), index_aborted)
            return
        path = files.path(self.folder, base, files.LOG)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            scan = Scan(fd, size, base, crc_from=None)
            for rows, count in scan:
                self.replay(base, rows, count, index_aborted)
        finally:
            os.close(fd)
        if scan.result.fault:
            raise CorruptLog(f"{path}: byte {scan.result.position}: {scan.result.fault}")

    def snapshot(self, offset: int) -> None:
        """Write the state as the snapshot at an offset. Not synced: its CRC reveals a torn one,
        which is ignored."""
        producer_snapshot.write(self.folder, offset, self._table.snapshot(SLOT), sync=False)

    def entries(self) -> list[ProducerEntry]:
        """The producers, by id."""
        return self._table.entries(SLOT)

    @property
    def first_unstable_offset(self) -> int:
        """First offset of the earliest open transaction, -1 when none is open."""
        return self._first_open(-1)

    def _first_open(self, other_than: int) -> int:
        rows = self._table.rows
        open_ = (rows[:, Producer.KEY] == SLOT + 1) & (rows[:, Producer.TXN_FIRST_OFFSET] >= 0)
        open_ &= rows[:, Producer.ID] != other_than
        return int(rows[open_, Producer.TXN_FIRST_OFFSET].min()) if open_.any() else -1

    def _end_transaction(self, row: list[int]) -> AbortedTransaction | None:
        """Replay an end marker; returns the transaction that it aborted, None for a commit or when
        none was open."""
        control = row[ScannedBatch.CONTROL_TYPE]
        if control not in (ABORT, COMMIT):
            return None  # another control record, or a marker whose transaction compaction has removed
        producer_id, epoch, offset = (
            row[ScannedBatch.PRODUCER_ID],
            row[ScannedBatch.PRODUCER_EPOCH],
            row[ScannedBatch.BASE_OFFSET],
        )
        known = self._table.get(SLOT, producer_id)
        first = known.current_txn_first_offset if known else -1
        if first >= 0 and self._mark is not None and offset >= self._mark:
            self._note_ended(first, offset)
        batches = known.batches if known and known.producer_epoch == epoch else ()
        self._table.put(
            SLOT,
            ProducerEntry(
                producer_id,
                epoch,
                row[ScannedBatch.COORDINATOR_EPOCH],
                row[ScannedBatch.MAX_TIMESTAMP],
                -1,
                batches,
            ),
        )
        if control == COMMIT or first < 0:
            return None
        open_in_others = self._first_open(producer_id)
        stable = open_in_others if open_in_others >= 0 else offset + 1
        return AbortedTransaction(producer_id, first, offset, stable)

    def _note_ended(self, first: int, marker: int) -> None:
        self.ended.append((first, marker))
        if len(self.ended) == MAX_ENDED:  # two become one: the first is held until the second has ended
            pairs = zip(self.ended[::2], self.ended[1::2], strict=True)
            self.ended = [(min(one, other), end) for (one, _), (other, end) in pairs]

    def _remove(self, offset: int) -> None:
        Path(files.path(self.folder, offset, files.SNAPSHOT)).unlink(missing_ok=True)
