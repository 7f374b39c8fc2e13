"""V13's facts of the aborted transactions: entries against the markers and records of the log."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_validation.segments import layout
from spark_validation.segments.index_entries import Problem, entries_of
from spark_validation.segments.layout import Words

ABORT = 0
NO_ENTRY = "an abort marker has no entry"


def aborted_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    """Entries rise; each names an abort marker of its producer; each marker that aborted records of
    the segment has an entry (of earlier ones: `other_begins`).

    Only for a log that has such a file: where markers were never indexed, a missing entry proves
    nothing. Compaction may remove a marker before its entry: an entry whose offset no batch holds
    proves nothing."""
    name = layout.ABORTED_FILE
    if not len(rows):
        return
    entries = entries_of(folder, segment, name)
    for late in np.flatnonzero(np.diff(entries["last_offset"].astype(np.int64)) <= 0):
        yield name, int(late + 1), int(entries["last_offset"][late + 1]), "is not above the entry before"
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
        elif entry["version"]:
            yield name, n, marker, f"has version {entry['version']}"
        elif entry["first_offset"] > marker:
            yield name, n, marker, "begins after its marker"
    for producer_id, offset in sorted(known - covered):
        if aborts_records(rows, producer_id, offset):
            yield name, len(entries), offset, NO_ENTRY


def aborts_records(rows: Words, producer_id: int, marker: int) -> bool:
    """Whether the batch before a marker, among those of its producer in the segment, holds
    records."""
    own = rows[(rows[:, layout.PRODUCER_ID] == producer_id) & (rows[:, layout.BASE_OFFSET] < marker)]
    return bool(len(own)) and not own[-1, layout.ATTRIBUTES] & layout.CONTROL


class Ended(NamedTuple):
    """The transaction that an abort marker ended. first: its first record, -1 if none is there;
    before: the marker of its producer before, -1 if none was seen; stable: the last stable offset
    behind it; whole: no record of it was compacted."""

    first: int
    before: int
    stable: int
    producer_id: int = -1
    whole: bool = True


NOTHING = Ended(-1, -1, 1 << 62)


class Transactions:
    """The first offsets of a log's transactions, as far as it has been walked. Owner: one reading
    of its segments."""

    def __init__(self) -> None:
        self.first: dict[int, int] = {}  # producer id -> its first record after its last marker
        self.marker: dict[int, int] = {}
        self.emptied: set[int] = set()  # producers whose records above were compacted, in part or all

    def add(self, rows: Words) -> dict[int, Ended]:
        """Continue with more rows; returns what each abort marker among them ended, by the marker's
        offset."""
        found = {}
        within = (rows[:, layout.ATTRIBUTES] & layout.TRANSACTIONAL) > 0
        for row in rows[within]:
            producer_id, base = int(row[layout.PRODUCER_ID]), int(row[layout.BASE_OFFSET])
            if not row[layout.ATTRIBUTES] & layout.CONTROL:
                self.first.setdefault(producer_id, base)
                if row[layout.RECORD_COUNT] != row[layout.LAST_OFFSET] - base + 1:
                    self.emptied.add(producer_id)
                continue
            first, before = self.first.pop(producer_id, -1), self.marker.get(producer_id, -1)
            whole = producer_id not in self.emptied
            self.emptied.discard(producer_id)
            if row[layout.CONTROL_TYPE] == ABORT:
                stable = min((*self.first.values(), base + 1))
                found[base] = Ended(first, before, stable, producer_id, whole)
            self.marker[producer_id] = base
        return found


def other_begins(
    folder: str, segment: int, rows: Words, begun: Transactions, indexed: bool
) -> Iterator[Problem]:
    """Entries of aborted transactions that begin above a record they ended, or at or below the
    marker before: readers would be shown the one, or not be shown the other's. A last stable offset
    that is too high ends a reader's search before all entries of its range are found.
    indexed: markers have entries: also one whose records lie in earlier segments."""
    name = layout.ABORTED_FILE
    aborts = begun.add(rows)
    entries = entries_of(folder, segment, name)
    for n, entry in enumerate(entries):
        first, before, stable, *_ = aborts.get(int(entry["last_offset"]), NOTHING)
        begins = int(entry["first_offset"])
        if 0 <= first < begins <= entry["last_offset"]:
            yield name, n, first, f"begins at {begins}, above the record at {first}"
        elif 0 <= begins <= before:
            yield name, n, before, f"begins at {begins}, below the marker at {before}"
        if entry["last_stable_offset"] > stable:
            reported = int(entry["last_stable_offset"])
            yield name, n, int(entry["last_offset"]), f"has the last stable offset {reported}, above {stable}"
    covered = set(entries["last_offset"].tolist())
    for marker, ended in aborts.items():
        known = marker in covered or aborts_records(rows, ended.producer_id, marker)
        if indexed and not known and ended.whole and 0 <= ended.first < segment:
            yield name, len(entries), marker, NO_ENTRY
