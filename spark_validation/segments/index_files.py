"""V13's facts of index files that are missing, or hold nothing where the broker has written
entries."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from spark_validation.segments import layout
from spark_validation.segments.index_entries import Problem, content, entries_of
from spark_validation.segments.layout import Words

MISSING = "is missing"
EMPTY = "holds no entry"
SPARSE = 4  # a start begins a new interval, so that several may pass without an entry


class IndexFiles:
    """The index files of a log's segments, compared with each other.

    A broker makes both files with each segment. It writes an offset entry as soon as more than
    index.interval.bytes lie after the one before, and with the entry the highest timestamp so far.
    """

    def __init__(self, folder: str, known: bool) -> None:
        """known: the broker makes both files; else it does if another segment has one."""
        self._folder = folder
        names = [path.name for path in Path(folder).iterdir()]
        made = (layout.INDEX_FILE, layout.TIME_INDEX_FILE)
        self._made = [each for each in made if known or any(name.endswith(each) for name in names)]
        self._segments = layout.segments_among(names)

    @cached_property
    def _interval(self) -> int:
        """Bytes, no fewer than index.interval.bytes; needed for an index without entries only."""
        return min(map(self._shortest, self._segments), default=layout.OFFSETS)

    def _shortest(self, segment: int) -> int:
        """Bytes before an entry of a segment, the fewest: the interval is shorter."""
        positions = entries_of(self._folder, segment, layout.INDEX_FILE)["position"].astype(np.int64)
        between = np.diff(positions, prepend=0)
        return int(between.min()) if len(between) and between.min() > 0 else layout.OFFSETS

    def problems(self, segment: int, rows: Words) -> Iterator[Problem]:
        """Problems of one segment. rows: its batches."""
        if not len(rows):
            return
        for suffix in self._made:
            if content(self._folder, segment, suffix) is None and self._is_there(segment):
                yield suffix, 0, segment, MISSING
        offsets = entries_of(self._folder, segment, layout.INDEX_FILE)
        if not len(offsets):
            if content(self._folder, segment, layout.INDEX_FILE) is not None:
                yield from self._unindexed(rows)
            return
        timed = rows[: np.searchsorted(rows[:, layout.POSITION], offsets["position"][-1], side="right")]
        if len(timed) and timed[:, layout.MAX_TIMESTAMP].max() > 0:
            times = content(self._folder, segment, layout.TIME_INDEX_FILE)
            if times is not None and not len(entries_of(self._folder, segment, layout.TIME_INDEX_FILE)):
                yield layout.TIME_INDEX_FILE, 0, int(timed[-1, layout.LAST_OFFSET]), EMPTY

    def _unindexed(self, rows: Words) -> Iterator[Problem]:
        last = rows[-1]
        if last[layout.POSITION] > SPARSE * self._interval:
            yield layout.INDEX_FILE, 0, int(last[layout.LAST_OFFSET]), EMPTY

    def _is_there(self, segment: int) -> bool:
        """Whether the segment is still there: retention renames its .log before the others."""
        return Path(layout.segment_path(self._folder, segment, layout.LOG_FILE)).exists()
