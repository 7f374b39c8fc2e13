"""V13's facts: entries of offset and time indexes that contradict the batches of their segment."""

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from kbroker.log import files
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments.ranges import INDEX_ENTRY, Range
from spark_validation.segments.walk import chunks

TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
Words = NDArray[np.int64]
Problem = tuple[str, int, int, str]  # file suffix, entry, offset, what is wrong


def read_problems(work: Range, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of schemas.INDEX; work holds whole segments."""
    for piece in work.pieces:
        found = [chunk.rows.copy() for chunk in chunks(work.folder, (piece,), False)]
        rows = np.concatenate(found) if found else np.empty((0, dk.BATCH_COLUMNS), np.int64)
        rows = rows[rows[:, dk.FAULT] == ScanStop.END]
        problems = [
            *offset_index(work.folder, piece.segment, rows),
            *time_index(work.folder, piece.segment, rows),
        ]
        if len(rows) and rows[0, ScannedBatch.BASE_OFFSET] < piece.segment:
            problems.append(
                (files.LOG, 0, int(rows[0, ScannedBatch.BASE_OFFSET]), "starts below the offset in its name")
            )
        for suffix, entry, offset, problem in problems:
            row = {
                "topic": work.topic,
                "partition": work.partition,
                "segment": piece.segment,
                "file": suffix,
                "entry": entry,
                "offset": offset,
                "problem": problem,
            }
            kinds = {"partition": pa.int32()}
            arrays = [pa.array([row[name]], kinds.get(name)) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names)


def entries_of(folder: str, segment: int, suffix: str, kind: np.dtype) -> NDArray[np.void] | None:
    """Entries of an index without the zeros that a preallocated file ends with; None when it is not there."""
    try:
        with open(files.path(folder, segment, suffix), "rb") as index:
            data = index.read(os.fstat(index.fileno()).st_size)
    except FileNotFoundError:
        return None
    entries = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    used = np.flatnonzero(entries.view((np.uint8, kind.itemsize)).reshape(-1, kind.itemsize).any(axis=1))
    return entries[: used[-1] + 1] if len(used) else entries[:0]


def offset_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    entries = entries_of(folder, segment, files.INDEX, INDEX_ENTRY)
    if entries is None or not len(entries):
        return
    offsets = entries["relative_offset"].astype(np.int64) + segment
    positions = entries["position"].astype(np.int64)
    for n in np.flatnonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0)):
        yield files.INDEX, int(n + 1), int(offsets[n + 1]), "is not above the entry before"
    place = np.searchsorted(rows[:, ScannedBatch.POSITION], positions)
    known = np.minimum(place, max(len(rows) - 1, 0))
    starts = (
        (place < len(rows)) & (rows[known, ScannedBatch.POSITION] == positions)
        if len(rows)
        else np.zeros(len(place), bool)
    )
    for n in np.flatnonzero(~starts):
        yield files.INDEX, int(n), int(offsets[n]), f"byte {positions[n]} is no batch start"
    if len(rows):
        holds = (rows[known, ScannedBatch.BASE_OFFSET] <= offsets) & (
            offsets <= rows[known, ScannedBatch.LAST_OFFSET]
        )
        for n in np.flatnonzero(starts & ~holds):
            yield files.INDEX, int(n), int(offsets[n]), f"the batch at byte {positions[n]} does not hold it"


def time_index(folder: str, segment: int, rows: Words) -> Iterator[Problem]:
    entries = entries_of(folder, segment, files.TIME_INDEX, TIME_ENTRY)
    if entries is None or not len(entries):
        return
    offsets = entries["relative_offset"].astype(np.int64) + segment
    times = entries["timestamp"].astype(np.int64)
    for n in np.flatnonzero((np.diff(offsets) < 0) | (np.diff(times) < 0)):
        yield files.TIME_INDEX, int(n + 1), int(offsets[n + 1]), "is not above the entry before"
    last = rows[-1, ScannedBatch.LAST_OFFSET] if len(rows) else segment - 1
    for n in np.flatnonzero((offsets > last) & (times > 0)):
        yield files.TIME_INDEX, int(n), int(offsets[n]), "lies behind the segment's end"
