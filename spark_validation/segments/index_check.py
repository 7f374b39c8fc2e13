"""V13's facts: entries of the files beside a log that contradict the batches of their segment."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_validation.segments import layout
from spark_validation.segments.layout import ABORTED_ENTRY, INDEX_ENTRY, TIME_ENTRY, Fault, Words
from spark_validation.segments.ranges import Range
from spark_validation.segments.walk import chunks

Problem = tuple[str, int, int, str]  # file suffix, entry, offset, what is wrong
ABORT = 0


def read_problems(work: Range, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of schemas.INDEX; work holds whole segments."""
    epochs = read_epochs(work.folder)
    has_index_of_aborts = any(path.suffix == layout.ABORTED_FILE for path in Path(work.folder).iterdir())
    segment = work.pieces[0].segment
    for entry, offset, falls in falling_epochs(epochs):
        yield row_of(work, names, segment, (layout.EPOCHS_FILE, entry, offset, falls))
    for piece in work.pieces:
        found = [chunk.rows for chunk in chunks(work.folder, (piece,), False)]
        rows = np.concatenate(found) if found else np.empty((0, layout.BATCH_COLUMNS), np.int64)
        rows = rows[rows[:, layout.FAULT] == Fault.SOUND]
        problems = [
            *torn(work.folder, piece.segment),
            *offset_index(work.folder, piece.segment, rows),
            *time_index(work.folder, piece.segment, rows),
            *(aborted_index(work.folder, piece.segment, rows) if has_index_of_aborts else ()),
            *other_epochs(epochs, rows),
        ]
        if len(rows) and rows[0, layout.BASE_OFFSET] < piece.segment:
            problems.append(
                (layout.LOG_FILE, 0, int(rows[0, layout.BASE_OFFSET]), "starts below the offset in its name")
            )
        for problem in problems:
            yield row_of(work, names, piece.segment, problem)


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


KINDS = {
    layout.INDEX_FILE: INDEX_ENTRY,
    layout.TIME_INDEX_FILE: TIME_ENTRY,
    layout.ABORTED_FILE: ABORTED_ENTRY,
}


def content(folder: str, segment: int, suffix: str) -> bytes | None:
    """Of a file beside a segment; None when it is not there."""
    try:
        return Path(layout.segment_path(folder, segment, suffix)).read_bytes()
    except FileNotFoundError:
        return None


def entries_of(folder: str, segment: int, suffix: str) -> NDArray[np.void]:
    """Entries of an index without the zeros that a preallocated file ends with; none when it is not
    there."""
    kind = KINDS[suffix]
    data = content(folder, segment, suffix) or b""
    entries = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    used = np.flatnonzero(entries.view((np.uint8, kind.itemsize)).reshape(-1, kind.itemsize).any(axis=1))
    return entries[: used[-1] + 1] if len(used) else entries[:0]


def torn(folder: str, segment: int) -> Iterator[Problem]:
    """Bytes after the last whole entry."""
    for suffix, kind in KINDS.items():
        data = content(folder, segment, suffix) or b""
        rest = len(data) % kind.itemsize
        if rest and any(data[-rest:]):
            yield suffix, len(data) // kind.itemsize, segment, "ends within an entry"


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


def aborted_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    """Each entry names an abort marker of its producer; each marker that aborted records of the
    segment has an entry.

    Only for a log that has such a file: where markers were never indexed, a missing entry proves
    nothing. Compaction may remove a marker before its entry: an entry whose offset no batch holds
    proves nothing."""
    name = layout.ABORTED_FILE
    if not len(rows):
        return
    entries = entries_of(folder, segment, name)
    aborts = rows[
        ((rows[:, layout.ATTRIBUTES] & layout.CONTROL) > 0) & (rows[:, layout.CONTROL_TYPE] == ABORT)
    ]
    known = {(int(row[layout.PRODUCER_ID]), int(row[layout.BASE_OFFSET])) for row in aborts}
    covered = {(int(entry["producer_id"]), int(entry["last_offset"])) for entry in entries}
    for n, entry in enumerate(entries):
        marker = int(entry["last_offset"])
        at = min(int(np.searchsorted(rows[:, layout.LAST_OFFSET], marker)), len(rows) - 1)
        held = rows[at, layout.BASE_OFFSET] <= marker <= rows[at, layout.LAST_OFFSET]
        if (int(entry["producer_id"]), marker) not in known and (
            held or marker > rows[-1, layout.LAST_OFFSET]
        ):
            yield name, n, marker, "no abort marker of its producer is there"
        elif entry["first_offset"] > marker:
            yield name, n, marker, "begins after its marker"
    for producer_id, offset in sorted(known - covered):
        if aborts_records(rows, producer_id, offset):
            yield name, len(entries), offset, "an abort marker has no entry"


def aborts_records(rows: Words, producer_id: int, marker: int) -> bool:
    """Whether the batch before a marker, among those of its producer in the segment, holds
    records."""
    mine = rows[(rows[:, layout.PRODUCER_ID] == producer_id) & (rows[:, layout.BASE_OFFSET] < marker)]
    return bool(len(mine)) and not mine[-1, layout.ATTRIBUTES] & layout.CONTROL


def read_epochs(folder: str) -> Words:
    """(epoch, first offset) of the checkpoint of leader epochs; none without the file."""
    try:
        lines = (Path(folder) / layout.EPOCHS_FILE).read_text().splitlines()[2:]
    except FileNotFoundError:
        lines = []
    found = [[int(part) for part in line.split()] for line in lines if len(line.split()) == 2]
    return np.array(found, np.int64).reshape(-1, 2)


def falling_epochs(epochs: Words) -> Iterator[tuple[int, int, str]]:
    for n in np.flatnonzero((np.diff(epochs, axis=0) <= 0).any(axis=1)):
        yield int(n + 1), int(epochs[n + 1, 1]), "is not above the entry before"


def other_epochs(epochs: Words, rows: Words) -> Iterator[Problem]:
    """Batches whose leader epoch is not the one that the checkpoint gives their offset."""
    if not len(epochs) or not len(rows) or len(list(falling_epochs(epochs))):
        return
    place = np.searchsorted(epochs[:, 1], rows[:, layout.BASE_OFFSET], side="right") - 1
    wrong = (place >= 0) & (rows[:, layout.LEADER_EPOCH] >= 0)
    wrong &= epochs[np.maximum(place, 0), 0] != rows[:, layout.LEADER_EPOCH]
    for n in np.flatnonzero(wrong):
        said, held = epochs[place[n], 0], rows[n, layout.LEADER_EPOCH]
        yield (
            layout.EPOCHS_FILE,
            int(place[n]),
            int(rows[n, layout.BASE_OFFSET]),
            f"says {said}, there is {held}",
        )
