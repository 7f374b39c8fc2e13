"""V13's facts of the producer snapshots: entries against the batches and markers below their
offset."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from crc32c import crc32c

from spark_validation.segments import layout
from spark_validation.segments.index_entries import Problem
from spark_validation.segments.layout import Words

SNAPSHOT_FILE = ".snapshot"
HEAD = struct.Struct(">hIi")  # version, CRC-32C of all from the count on, count
CHECKED_FROM = 6
ENTRY = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("first_offset", ">i8"),  # of its open transaction, -1 outside of one
    ]
)
OWNED = [layout.BASE_OFFSET, layout.LAST_OFFSET, layout.PRODUCER_ID]
VERSION = 1
SEQUENCES = 1 << 31
HOUR_MS = 3_600_000


@dataclass
class Producer:
    """The log's contents of a producer id below an offset. batch, marker: the rows of its last
    ones, and open: the first offset of its open transaction (-1 without one)."""

    batch: Words | None = None
    marker: Words | None = None
    open: int = -1

    @property
    def batch_ms(self) -> int:
        """Largest timestamp of its last batch; 0 without one."""
        return 0 if self.batch is None else int(self.batch[layout.MAX_TIMESTAMP])

    @property
    def last_ms(self) -> int:
        """Time from which its entry's expiry counts: that of its last batch or marker."""
        return max(self.batch_ms, 0 if self.marker is None else int(self.marker[layout.MAX_TIMESTAMP]))


class Producers:
    """Producers of a log, by its batches read so far. Owner: one reading of its segments."""

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        self._batches: list[Words] = []  # OWNED of the rows that were added

    def add(self, rows: Words) -> None:
        if len(rows):
            self._batches.append(rows[:, OWNED])
        for row in rows[rows[:, layout.PRODUCER_ID] >= 0]:
            known = self.by_id.setdefault(int(row[layout.PRODUCER_ID]), Producer())
            if row[layout.ATTRIBUTES] & layout.CONTROL:
                known.marker, known.open = row, -1
                continue
            known.batch = row
            holds = row[layout.RECORD_COUNT] > 0  # compaction keeps an empty batch without its marker
            if known.open < 0 and holds and row[layout.ATTRIBUTES] & layout.TRANSACTIONAL:
                known.open = int(row[layout.BASE_OFFSET])

    def holder(self, offset: int) -> int | None:
        """The producer id of the batch that holds an offset, -1 of one without; None where no batch
        does."""
        for rows in reversed(self._batches):
            at = int(np.searchsorted(rows[:, 1], offset))
            if at < len(rows) and rows[at, 0] <= offset:
                return int(rows[at, 2])
        return None


def snapshots_in(folder: str) -> list[int]:
    """Offsets of the snapshots in a partition's folder, ascending."""
    stems = (path.stem for path in Path(folder).glob(f"*{SNAPSHOT_FILE}"))
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdigit())


def snapshot_problems(folder: str, offset: int, below: Producers) -> Iterator[Problem]:
    """Problems of the snapshot at an offset. below: producers of the log's batches below it."""
    try:
        data = (Path(folder) / f"{offset:020d}{SNAPSHOT_FILE}").read_bytes()
    except FileNotFoundError:  # removed since the folder was listed
        return
    entries = read_entries(data)
    if entries is None:
        yield SNAPSHOT_FILE, 0, offset, "cannot be read"
        return
    for n, entry in enumerate(entries):
        known = below.by_id.get(int(entry["producer_id"]), Producer())
        for at, problem in entry_problems(entry, offset, known):
            yield SNAPSHOT_FILE, n, at, problem
        last = int(entry["last_offset"])
        if last < offset and (holder := below.holder(last)) not in (None, entry["producer_id"]):
            yield SNAPSHOT_FILE, n, last, f"ends at {last}, in a batch of the producer {holder}"
    for at, problem in lacking(entries, below):
        yield SNAPSHOT_FILE, len(entries), at, problem


def lacking(
    entries: np.ndarray[tuple[int], np.dtype[np.void]], below: Producers
) -> Iterator[tuple[int, str]]:
    """Producers whose last batch lies below the snapshot, and which have no entry.

    Entries expire by their time, the oldest first: one that is there and is older is proof. So is
    one that is there at all, if the log continued for less than an hour: entries live for a day."""
    there = {int(entry["producer_id"]) for entry in entries}
    kept = [known.last_ms for number, known in below.by_id.items() if number in there]
    newest = max((known.last_ms for known in below.by_id.values()), default=0)
    for number, known in below.by_id.items():
        if number in there or known.batch is None or not kept:
            continue
        if min(kept) < known.batch_ms or newest - known.batch_ms < HOUR_MS:
            yield int(known.batch[layout.LAST_OFFSET]), f"lacks the producer {number}"


def read_entries(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.void]] | None:
    """Entries of a snapshot file; None if it is damaged. Bytes after the entries are kbroker's."""
    if len(data) < HEAD.size:
        return None
    version, crc, count = HEAD.unpack_from(data)
    whole = 0 <= count <= (len(data) - HEAD.size) // ENTRY.itemsize
    if version != VERSION or crc != crc32c(data[CHECKED_FROM:]) or not whole:
        return None
    return np.frombuffer(data, ENTRY, count, HEAD.size)


def entry_problems(entry: np.void, offset: int, known: Producer) -> Iterator[tuple[int, str]]:
    """(offset, problem) of one entry. offset: of its snapshot."""
    last, epoch = int(entry["last_offset"]), int(entry["producer_epoch"])
    if last >= offset:
        yield last, "ends at or after its snapshot"
    if known.batch is not None and last < offset:
        yield from batch_problems(entry, known.batch)
    rows = [row for row in (known.batch, known.marker) if row is not None]
    highest = max((int(row[layout.PRODUCER_EPOCH]) for row in rows), default=epoch)
    # A higher one may be of a marker that compaction took, but not with the batch of a lower one.
    held = -1 if known.batch is None else int(known.batch[layout.LAST_OFFSET])
    if epoch < highest or (epoch > highest and last == held):
        at = max(int(row[layout.LAST_OFFSET]) for row in rows)
        yield at, f"has the producer epoch {epoch}, there is {highest}"
    yield from transaction_problems(entry, offset, known)
    yield from time_problems(entry, known)


def time_problems(entry: np.void, known: Producer) -> Iterator[tuple[int, str]]:
    """Problems of an entry's time: it must be that of its producer's last batch, or of the marker
    after it.

    A later marker may have been compacted since, and a batch that was compacted in part may have
    lost the record with its highest time."""
    batch, marker = known.batch, known.marker
    if batch is None or entry["last_offset"] != batch[layout.LAST_OFFSET]:
        return
    if batch[layout.RECORD_COUNT] != batch[layout.LAST_OFFSET] - batch[layout.BASE_OFFSET] + 1:
        return
    last, there = batch, int(entry["timestamp"])
    if marker is not None and marker[layout.BASE_OFFSET] > batch[layout.LAST_OFFSET]:
        last = marker
    held = int(last[layout.MAX_TIMESTAMP])
    unended = last is batch and bool(batch[layout.ATTRIBUTES] & layout.TRANSACTIONAL) and known.open < 0
    if not unended and (there < held or (there > held and last is batch)):
        yield int(last[layout.LAST_OFFSET]), f"has the time {there}, there is {held}"


def batch_problems(entry: np.void, batch: Words) -> Iterator[tuple[int, str]]:
    """Problems of an entry's offset and sequence, if it has the epoch of the last batch: a marker
    of a later epoch ends the sequence numbers. An entry above the last batch proves nothing:
    compaction may have removed the batch."""
    last, held = int(entry["last_offset"]), int(batch[layout.LAST_OFFSET])
    if entry["producer_epoch"] != batch[layout.PRODUCER_EPOCH] or last > held:
        return
    if last < held:
        yield held, f"ends at {last}, below its batch"
        return
    delta = held - int(batch[layout.BASE_OFFSET])
    sequence = (int(batch[layout.BASE_SEQUENCE]) + delta) % SEQUENCES
    if batch[layout.BASE_SEQUENCE] >= 0 and entry["last_sequence"] != sequence:
        yield held, f"has the last sequence number {entry['last_sequence']}, there is {sequence}"
    if entry["offset_delta"] != delta:
        yield held, f"has the offset delta {entry['offset_delta']}, there is {delta}"


def transaction_problems(entry: np.void, offset: int, known: Producer) -> Iterator[tuple[int, str]]:
    """Problems of an entry's open transaction, whose first records may have been deleted or
    compacted, and of the epoch of the coordinator that ended the last one. A higher coordinator
    epoch may be that of a marker that compaction removed."""
    first, marker = int(entry["first_offset"]), known.marker
    ended = int(marker[layout.BASE_OFFSET]) if marker is not None else -1
    if first >= offset:
        yield first, "has a transaction that begins at or after its snapshot"
    elif 0 <= first < ended:
        yield ended, f"has an open transaction from {first}, which a marker ended"
    elif known.open >= 0 and not 0 <= first <= known.open:
        yield known.open, f"has an open transaction from {first}, there is one from {known.open}"
    if marker is None or marker[layout.CONTROL_TYPE] not in (0, 1):
        return
    held = int(marker[layout.COORDINATOR_EPOCH])
    if entry["coordinator_epoch"] < held:
        yield ended, f"has the coordinator epoch {entry['coordinator_epoch']}, there is {held}"
