"""V13's facts: entries of the files beside a log that contradict the batches of their segment."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_validation.segments import layout
from spark_validation.segments.aborted_check import Transactions, aborted_index, other_begins
from spark_validation.segments.index_entries import Problem, content, entries_of, torn
from spark_validation.segments.index_files import IndexFiles
from spark_validation.segments.layout import Fault, Words
from spark_validation.segments.ranges import Range
from spark_validation.segments.snapshot_check import SNAPSHOT_FILE, Producers, snapshot_problems, snapshots_in
from spark_validation.segments.walk import chunks

BEGINS_LATE = "has no entry for the batch at"
ENDS_OTHERWISE = "does not end with it"
ENDS_BELOW = "has no entry for the highest timestamp"


def read_problems(work: Range, names: list[str], indexed: bool = False) -> Iterator[pa.RecordBatch]:
    """Rows of schemas.INDEX; work holds whole segments. indexed: the broker indexes every aborted
    transaction, makes both indexes of each segment, and notes every leader epoch; else it does so
    where such a file is there."""
    files = IndexFiles(work.folder, indexed)
    uncovered = indexed or (Path(work.folder) / layout.EPOCHS_FILE).exists()  # as far as nothing was read
    epochs, torn_epochs = read_epochs(work.folder)
    indexed |= any(path.suffix == layout.ABORTED_FILE for path in Path(work.folder).iterdir())
    segment = work.pieces[0].segment
    for entry in torn_epochs:
        yield row_of(work, names, segment, (layout.EPOCHS_FILE, entry, segment, "cannot be read"))
    for entry, offset, falls in falling_epochs(epochs):
        yield row_of(work, names, segment, (layout.EPOCHS_FILE, entry, offset, falls))
    begun, producers, end = Transactions(), Producers(), 0
    snapshots = snapshots_in(work.folder)
    for piece in work.pieces:
        found = [chunk.rows for chunk in chunks(work.folder, (piece,), False)]
        rows = np.concatenate(found) if found else np.empty((0, layout.BATCH_COLUMNS), np.int64)
        named_otherwise = list(other_name(piece.segment, rows[:1]))
        rows = rows[rows[:, layout.FAULT] == Fault.SOUND]
        end = max(end, piece.segment, *(rows[-1:, layout.LAST_OFFSET] + 1))
        due = [offset for offset in snapshots if piece.segment <= offset <= end]
        snapshots = [offset for offset in snapshots if offset > end]  # one at the end is not the next's, too
        problems = [
            *named_otherwise,
            *checked_snapshots(work.folder, due, rows, producers),
            *torn(work.folder, piece.segment),
            *files.problems(piece.segment, rows),
            *offset_index(work.folder, piece.segment, rows),
            *time_index(work.folder, piece.segment, rows),
            *(() if piece.last else ends_below(work.folder, piece.segment, rows)),
            *(aborted_index(work.folder, piece.segment, rows) if indexed else ()),
            *other_begins(work.folder, piece.segment, rows, begun, indexed),
            *other_epochs(epochs, rows),
            *(epochs_begin_late(epochs, rows[:1]) if uncovered else ()),
        ]
        uncovered &= not len(rows)
        for problem in problems:
            yield row_of(work, names, piece.segment, problem)
    for offset in snapshots:
        beyond = (SNAPSHOT_FILE, 0, offset, "lies after the log's end")
        yield row_of(work, names, work.pieces[-1].segment, beyond)
    for n in np.flatnonzero(epochs[:, 1] > end):
        late = (layout.EPOCHS_FILE, int(n), int(epochs[n, 1]), "lies after the log's end")
        yield row_of(work, names, work.pieces[-1].segment, late)


def other_name(segment: int, first: Words) -> Iterator[Problem]:
    """A segment's first batch does not have the offset in its name. first: its row, or none."""
    for row in first:
        base = int(row[layout.BASE_OFFSET])
        if row[layout.FAULT] == Fault.SOUND and base != segment:
            side = "below" if base < segment else "above"
            yield layout.LOG_FILE, 0, base, f"starts {side} the offset in its name"


def checked_snapshots(folder: str, due: list[int], rows: Words, producers: Producers) -> Iterator[Problem]:
    """Problems of the producer snapshots at the offsets `due`, within a segment or at its end.
    rows: the segment's batches; `producers` has all of them afterwards."""
    at = 0
    for offset in due:
        below = int(np.searchsorted(rows[:, layout.LAST_OFFSET], offset))
        producers.add(rows[at:below])
        at = below
        yield from snapshot_problems(folder, offset, producers)
    producers.add(rows[at:])


def row_of(work: Range, names: list[str], segment: int, found: Problem) -> pa.RecordBatch:
    suffix, entry, offset, problem = found
    row = {
        "topic": work.topic,
        "partition": work.partition,
        "segment": segment,
        "file": suffix,
        "entry": entry,
        "offset": offset,
        "problem": problem,
    }
    kinds = {"partition": pa.int32()}
    return pa.RecordBatch.from_arrays([pa.array([row[name]], kinds.get(name)) for name in names], names)


def offset_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    """Entries rise; each points to the start of the batch that holds its offset."""
    name = layout.INDEX_FILE
    entries = entries_of(folder, segment, name)
    if not len(entries):
        return
    offsets = entries["relative_offset"].astype(np.int64) + segment
    positions = entries["position"].astype(np.int64)
    for n in np.flatnonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0)):
        yield name, int(n + 1), int(offsets[n + 1]), "is not above the entry before"
    place = np.searchsorted(rows[:, layout.POSITION], positions)
    known = np.minimum(place, max(len(rows) - 1, 0))
    starts = np.zeros(len(place), bool)
    if len(rows):
        starts = (place < len(rows)) & (rows[known, layout.POSITION] == positions)
    for n in np.flatnonzero(~starts):
        yield name, int(n), int(offsets[n]), f"byte {positions[n]} is no batch start"
    if len(rows):
        holds = (rows[known, layout.BASE_OFFSET] <= offsets) & (offsets <= rows[known, layout.LAST_OFFSET])
        for n in np.flatnonzero(starts & ~holds):
            yield name, int(n), int(offsets[n]), f"the batch at byte {positions[n]} does not hold it"
        for n in np.flatnonzero(starts & holds & (rows[known, layout.LAST_OFFSET] != offsets)):
            yield name, int(n), int(offsets[n]), f"the batch at byte {positions[n]} {ENDS_OTHERWISE}"


def time_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    """Entries rise; each has the highest timestamp so far, and the offset of a batch that has
    it."""
    name = layout.TIME_INDEX_FILE
    entries = entries_of(folder, segment, name)
    if not len(entries):
        return
    offsets = entries["relative_offset"].astype(np.int64) + segment
    times = entries["timestamp"].astype(np.int64)
    for n in np.flatnonzero((np.diff(offsets) < 0) | (np.diff(times) < 0)):
        yield name, int(n + 1), int(offsets[n + 1]), "is not above the entry before"
    last = rows[-1, layout.LAST_OFFSET] if len(rows) else segment - 1
    beyond = (offsets > last) & (times > 0)
    for n in np.flatnonzero(beyond):
        yield name, int(n), int(offsets[n]), "lies after the segment's end"
    if not len(rows):
        return
    place = np.searchsorted(rows[:, layout.LAST_OFFSET], offsets)
    known = np.minimum(place, len(rows) - 1)
    held = (rows[known, layout.MAX_TIMESTAMP] == times) & (rows[known, layout.BASE_OFFSET] <= offsets)
    for n in np.flatnonzero(~held & ~beyond & (times > 0)):
        yield name, int(n), int(offsets[n]), f"no record there has timestamp {times[n]}"
    highest = np.maximum.accumulate(rows[:, layout.MAX_TIMESTAMP])
    for n in np.flatnonzero(held & ~beyond & (highest[known] > times)):
        yield name, int(n), int(offsets[n]), f"an earlier record has a timestamp above {times[n]}"


def ends_below(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    """The last entry of the time index of a closed segment has its highest timestamp: lookups by
    time, and retention, go by it alone. Only where the file is there."""
    name = layout.TIME_INDEX_FILE
    if not len(rows) or content(folder, segment, name) is None:
        return
    entries = entries_of(folder, segment, name)
    at = int(np.argmax(rows[:, layout.MAX_TIMESTAMP]))
    highest = int(rows[at, layout.MAX_TIMESTAMP])
    if highest >= 0 and (not len(entries) or entries["timestamp"][-1] < highest):
        yield name, len(entries), int(rows[at, layout.LAST_OFFSET]), f"{ENDS_BELOW} {highest}"


def read_epochs(folder: str) -> tuple[Words, list[int]]:
    """(epoch, first offset) of the checkpoint of leader epochs, none without the file; and its
    lines that are no entries, or the line after the last where it has not as many as it says."""
    try:
        lines = (Path(folder) / layout.EPOCHS_FILE).read_bytes().splitlines()
    except FileNotFoundError:
        lines = []
    found = []
    torn = []
    for n, line in enumerate(lines[2:]):
        parts = line.split()
        numbers = [int(part) for part in parts if part.isdigit()]
        if len(parts) == len(numbers) == 2 and max(numbers) < layout.OFFSETS:
            found.append(numbers)
        elif parts:
            torn.append(n)
    if lines and not torn and (lines[0].strip() != b"0" or lines[1:2] != [b"%d" % len(lines[2:])]):
        torn.append(len(lines[2:]))
    return np.array(found, np.int64).reshape(-1, 2), torn


def falling_epochs(epochs: Words) -> Iterator[tuple[int, int, str]]:
    for n in np.flatnonzero((np.diff(epochs, axis=0) <= 0).any(axis=1)):
        yield int(n + 1), int(epochs[n + 1, 1]), "is not above the entry before"


def epochs_begin_late(epochs: Words, first: Words) -> Iterator[Problem]:
    """The log's first batch has a leader epoch, and lies below the checkpoint's first entry. first:
    its row, or none."""
    for row in first:
        base = int(row[layout.BASE_OFFSET])
        if row[layout.LEADER_EPOCH] >= 0 and not (len(epochs) and epochs[0, 1] <= base):
            yield layout.EPOCHS_FILE, 0, base, f"{BEGINS_LATE} {base}"


def other_epochs(epochs: Words, rows: Words) -> Iterator[Problem]:
    """Batches whose leader epoch is not the one that the checkpoint gives their offset, or within
    which the checkpoint begins one: a batch has one leader."""
    if not len(epochs) or not len(rows) or len(list(falling_epochs(epochs))):
        return
    starts = epochs[1:, 1]  # the first one is moved to the log's start
    inside = np.minimum(np.searchsorted(rows[:, layout.LAST_OFFSET], starts), len(rows) - 1)
    within = (rows[inside, layout.BASE_OFFSET] < starts) & (starts <= rows[inside, layout.LAST_OFFSET])
    for n in np.flatnonzero(within):
        base = int(rows[inside[n], layout.BASE_OFFSET])
        yield layout.EPOCHS_FILE, int(n + 1), int(starts[n]), f"begins within the batch at {base}"
    place = np.searchsorted(epochs[:, 1], rows[:, layout.BASE_OFFSET], side="right") - 1
    wrong = (place >= 0) & (rows[:, layout.LEADER_EPOCH] >= 0)
    wrong &= epochs[np.maximum(place, 0), 0] != rows[:, layout.LEADER_EPOCH]
    for n in np.flatnonzero(wrong):
        reported, held = epochs[place[n], 0], rows[n, layout.LEADER_EPOCH]
        yield (
            layout.EPOCHS_FILE,
            int(place[n]),
            int(rows[n, layout.BASE_OFFSET]),
            f"says {reported}, there is {held}",
        )
