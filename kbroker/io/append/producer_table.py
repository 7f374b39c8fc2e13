"""The producers of all partitions of one IO worker: a growing table that the drain kernel uses
directly.

Runs in: io. Owner: the IO worker. Not thread-safe.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.io.append import producer_columns
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.kernels import producers as kernel
from kbroker.kernels.producer_rows import Producer, ProducerBatch


class EndTxnMarker(Struct, frozen=True):
    """A transaction marker in the log, a control batch at an offset."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    timestamp_ms: int
    offset: int


class ProducerTable:
    """Entries keyed by (slot, producer id). ``rows`` changes identity when the table grows;
    ``on_growth`` is called then.

    expiration_ms: the current producer.id.expiration.ms: loading a log also removes idle producers.
    """

    def __init__(self, capacity: int = 1024, on_growth: Callable[[], None] | None = None) -> None:
        self.expiration_ms = 86_400_000
        self.rows: NDArray[np.int64] = kernel.new_table(capacity)
        self._on_growth = on_growth
        self._count_and_room = self.room
        """Count plus room: an added producer does not change this sum."""
        # keys and their rows, and whether they were requested since the last change: see `states`
        self._by_slot: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
        self._is_listed = False
        self._listed_room = self.room

    @property
    def room(self) -> int:
        """Producers that may be added before ``make_room`` is due, or fewer. Kernels that add one
        count it there."""
        return int(self.rows[-1, Producer.ROOM])

    @property
    def count(self) -> int:
        """Producers remembered; read every second, so the rows are not counted: clients may
        make millions."""
        return self._count_and_room - self.room

    def make_room(self, needed: int) -> None:
        """Grow the table (or sweep deleted rows) until there is room for ``needed`` more
        producers."""
        if self.room >= needed:
            return
        live = int(np.count_nonzero(self.rows[:, Producer.KEY] > 0))
        capacity = len(self.rows) - 1
        while 2 * (live + needed) > capacity:
            capacity *= 2
        grown = kernel.new_table(capacity)
        kernel.rehash(self.rows, grown)
        self.rows = grown
        self._count_and_room = live + self.room
        self._changed()
        if self._on_growth is not None:
            self._on_growth()

    def entries(self, slot: int) -> list[ProducerEntry]:
        """Every producer of a partition, ordered by producer id."""
        return [_entry(self.rows[row]) for row in self._rows_of(slot)]

    def states(self, slot: int, after: int = -1, limit: int = 1 << 62) -> list[list[int]]:
        """The fields of ProducerState of a partition's producers with ids above `after`, by
        producer id; at most `limit` of them. From the second call on, an index replaces the scan of
        all rows, until a row is added or removed."""
        if self.room != self._listed_room:  # producers were added
            self._changed()
        if self._by_slot is None and self._is_listed:
            keys = self.rows[:, Producer.KEY]
            live = np.flatnonzero(keys > 0)
            live = live[np.lexsort((self.rows[live, Producer.ID], keys[live]))]
            self._by_slot = keys[live], live
        self._is_listed = True
        rows = self._rows_of(slot)
        first = int(np.searchsorted(self.rows[rows, Producer.ID], after, side="right"))
        return producer_columns.states(self.rows, rows[first : first + limit])

    def snapshot(self, slot: int) -> bytes:
        """The bytes of a snapshot of a partition's producers."""
        return producer_columns.snapshot(self.rows, self._rows_of(slot))

    def last_records(self, slot: int) -> bytes:
        """CleaningJob.last_records of a partition's producers."""
        return producer_columns.last_records(self.rows, self._rows_of(slot))

    def _rows_of(self, slot: int) -> NDArray[np.int64]:
        if self._by_slot is not None and self.room == self._listed_room:
            keys, rows = self._by_slot
            return rows[np.searchsorted(keys, slot + 1) : np.searchsorted(keys, slot + 2)]
        rows = np.flatnonzero(self.rows[:, Producer.KEY] == slot + 1)
        return rows[np.argsort(self.rows[rows, Producer.ID])]

    def _changed(self) -> None:
        """A row was added or removed: the index of `states` is outdated."""
        self._by_slot = None
        self._is_listed = False
        self._listed_room = self.room

    def get(self, slot: int, producer_id: int) -> ProducerEntry | None:
        """One producer's entry."""
        row = kernel.find(self.rows, slot, producer_id)
        return None if row < 0 else _entry(self.rows[row])

    def put(self, slot: int, entry: ProducerEntry) -> None:
        """Add or replace an entry."""
        self.make_room(1)
        row = self.rows[kernel.claim(self.rows, slot, entry.producer_id)]
        row[Producer.EPOCH] = entry.producer_epoch
        row[Producer.COORDINATOR_EPOCH] = entry.coordinator_epoch
        row[Producer.LAST_TIMESTAMP] = entry.last_timestamp
        row[Producer.TXN_FIRST_OFFSET] = entry.current_txn_first_offset
        row[Producer.BATCH_COUNT] = len(entry.batches)
        for n, batch in enumerate(entry.batches):
            base = Producer.BATCHES + n * ProducerBatch.WORDS
            row[base : base + ProducerBatch.WORDS] = (
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.timestamp,
            )

    def end_transaction(self, slot: int, marker: EndTxnMarker) -> int:
        """A marker is in the log: first offset of the transaction that it ends, -1 for none.

        The producer keeps its batches unless the epoch is newer: then its sequences start again."""
        self.make_room(1)
        row = self.rows[kernel.claim(self.rows, slot, marker.producer_id)]
        first_offset = _open_since(int(row[Producer.TXN_FIRST_OFFSET]))
        if marker.producer_epoch != row[Producer.EPOCH]:
            row[Producer.EPOCH] = marker.producer_epoch
            row[Producer.BATCH_COUNT] = 0
        row[Producer.COORDINATOR_EPOCH] = marker.coordinator_epoch
        row[Producer.LAST_TIMESTAMP] = marker.timestamp_ms
        row[Producer.TXN_FIRST_OFFSET] = Producer.ENDED - marker.offset
        return first_offset

    def reopen_transaction(self, slot: int, producer_id: int, first_offset: int) -> None:
        """Undo the end of a transaction that the transaction index does not hold."""
        self.rows[kernel.find(self.rows, slot, producer_id), Producer.TXN_FIRST_OFFSET] = first_offset

    def open_transactions(self, slot: int) -> list[tuple[int, int]]:
        """(first offset, producer id) of the partition's open transactions, in order. Reads all
        producers of the worker."""
        own = self.rows[self.rows[:, Producer.KEY] == slot + 1]
        own = own[own[:, Producer.TXN_FIRST_OFFSET] >= 0]
        firsts, ids = own[:, Producer.TXN_FIRST_OFFSET].tolist(), own[:, Producer.ID].tolist()
        return sorted(zip(firsts, ids, strict=True))

    def is_open(self, slot: int, first_offset: int, producer_id: int) -> bool:
        """Whether a producer's transaction with this first offset is open."""
        row = kernel.find(self.rows, slot, producer_id)
        return row >= 0 and bool(self.rows[row, Producer.TXN_FIRST_OFFSET] == first_offset)

    def remove(self, slot: int, producer_id: int) -> None:
        """Forget one producer; nothing happens when it is unknown."""
        row = kernel.find(self.rows, slot, producer_id)
        if row >= 0:
            self.rows[row, Producer.KEY] = -1
            self._count_and_room -= 1
            self._changed()

    def drop(self, slot: int) -> None:
        """Forget every producer of a partition."""
        own = self.rows[:, Producer.KEY] == slot + 1
        self.rows[own, Producer.KEY] = -1
        self._count_and_room -= int(np.count_nonzero(own))
        self._changed()

    def expire(self, before_ms: int) -> list[int]:
        """Forget producers idle since before ``before_ms`` and outside a transaction; returns the
        slots of their logs."""
        keys = self.rows[:, Producer.KEY]
        idle = (
            (keys > 0)
            & (self.rows[:, Producer.LAST_TIMESTAMP] < before_ms)
            & (self.rows[:, Producer.TXN_FIRST_OFFSET] < 0)
        )
        slots: list[int] = (np.unique(keys[idle]) - 1).tolist()
        self.rows[idle, Producer.KEY] = -1
        self._count_and_room -= int(np.count_nonzero(idle))
        self._changed()
        return slots


def _open_since(word: int) -> int:
    """First offset of the open transaction, or -1. word: negative without an open transaction."""
    return max(word, -1)


def _entry(row: NDArray[np.int64]) -> ProducerEntry:
    words = row.tolist()
    batches = []
    for n in range(words[Producer.BATCH_COUNT]):
        base = Producer.BATCHES + n * ProducerBatch.WORDS
        batches.append(BatchMetadata(*words[base : base + ProducerBatch.WORDS]))
    return ProducerEntry(
        producer_id=words[Producer.ID],
        producer_epoch=words[Producer.EPOCH],
        coordinator_epoch=words[Producer.COORDINATOR_EPOCH],
        last_timestamp=words[Producer.LAST_TIMESTAMP],
        current_txn_first_offset=_open_since(words[Producer.TXN_FIRST_OFFSET]),
        batches=tuple(batches),
    )
