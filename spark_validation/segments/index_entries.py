"""Entries of the files beside a log's segments."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spark_validation.segments import layout
from spark_validation.segments.layout import ABORTED_ENTRY, INDEX_ENTRY, TIME_ENTRY

Problem = tuple[str, int, int, str]  # file suffix, entry, offset, what is wrong
KINDS = {
    layout.INDEX_FILE: INDEX_ENTRY,
    layout.TIME_INDEX_FILE: TIME_ENTRY,
    layout.ABORTED_FILE: ABORTED_ENTRY,
}


def content(folder: str, segment: int, suffix: str) -> bytes | None:
    """Bytes of a file beside a segment; None if it is missing."""
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
