"""The log of a coordinator's partition in windows: the records of which a replay needs the values.

See `replay_kernel.py` for the records that it may leave out.
"""

import os
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbroker.control.coordinator.replay_kernel import read_window
from kbroker.control.coordinator.replay_layout import (
    ReplayGroups,
    ReplayKind,
    ReplayRow,
    ReplayStop,
    ReplayWindow,
)
from kbroker.kernels.keyed_hash import random_key
from kbroker.log.reader import LogReader, SegmentView
from kbroker.log.walk import batch_bytes, is_torn, is_unwritten, parse_batch
from kbroker.protocol import batch_layout as b
from kbroker.protocol.records import RecordBatch

Words = NDArray[np.int64]

WINDOW_BYTES: Final = 16 << 20
WINDOW_ROWS: Final = 1 << 18
FIRST_BYTES: Final = 1 << 20
"""Size of the first window: a small log takes little memory."""
INDEX_SHARE: Final = 2
"""Index words for each row."""
PORTION: Final = 1024
"""Rows that become Python objects at once."""


class ReplayedRecord(NamedTuple):
    """A record to replay. number: of its row in the window."""

    number: int
    offset: int
    timestamp_ms: int
    producer_id: int
    transactional: bool
    key: bytes
    value: bytes | None


class Window:
    """The batches of one piece of a log. Valid until the next one is read.

    Runs in: control. Owner: one load.
    """

    def __init__(self, data: memoryview, rows: Words) -> None:
        self._data = data
        self._rows = rows
        self.records = len(rows) - int((rows[:, ReplayRow.KIND] == ReplayKind.BATCH).sum())
        """The number of records, without those of whole batches."""

    def items(self) -> Iterator[ReplayedRecord | RecordBatch]:
        """The records to replay, in order, and the batches that have to be decoded."""
        firsts = np.flatnonzero(self._rows[:, ReplayRow.PREVIOUS] < 0)
        for start in range(0, len(firsts), PORTION):
            numbers = firsts[start : start + PORTION]
            for number, row in zip(numbers.tolist(), self._rows[numbers].tolist(), strict=True):
                if row[ReplayRow.KIND] == ReplayKind.BATCH:
                    at = row[ReplayRow.POSITION]
                    yield parse_batch(memoryview(bytes(self._data[at : at + row[ReplayRow.BYTES]])), at)
                elif row[ReplayRow.LAST] == number:
                    yield self._record(number, row)
                else:
                    yield self._record_of(row[ReplayRow.LAST])

    def before(self, record: ReplayedRecord) -> ReplayedRecord | None:
        """The record that has the effect of all earlier ones of its chain, if this one is
        skipped."""
        number = int(self._rows[record.number, ReplayRow.PREVIOUS])
        return None if number < 0 else self._record_of(number)

    def _record_of(self, number: int) -> ReplayedRecord:
        return self._record(number, self._rows[number].tolist())

    def _record(self, number: int, row: list[int]) -> ReplayedRecord:
        kind, key, key_bytes, value, value_bytes, timestamp, offset, producer_id, *_ = row
        return ReplayedRecord(
            number,
            offset,
            timestamp,
            producer_id,
            kind == ReplayKind.TRANSACTIONAL,
            bytes(self._data[key : key + key_bytes]),
            None if value_bytes < 0 else bytes(self._data[value : value + value_bytes]),
        )


class LogWindows:
    """Reads the windows of logs, one after the other. Runs in: control, on the thread that reads
    logs. Owner: the loads of a coordinator's topic.

    types: the record types of which the last value of a key has the effect of all.
    """

    def __init__(
        self, types: AbstractSet[int], rows: int = WINDOW_ROWS, max_bytes: int = WINDOW_BYTES
    ) -> None:
        self._words: Words = ReplayWindow.row()
        self._max_bytes = max_bytes
        self._buffer: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._rows: Words = ReplayRow.table(rows)
        self._index: Words = np.zeros(1 << (INDEX_SHARE * rows - 1).bit_length(), np.int64)
        self._barriers: Words = np.zeros(ReplayGroups.PLACES, np.int64)
        words = self._words
        words[ReplayWindow.ROWS], words[ReplayWindow.ROOM] = self._rows.ctypes.data, rows
        words[ReplayWindow.INDEX], words[ReplayWindow.MASK] = self._index.ctypes.data, len(self._index) - 1
        words[ReplayWindow.BARRIERS] = self._barriers.ctypes.data
        words[ReplayWindow.TYPES] = sum(1 << each for each in types)
        words[ReplayWindow.SEED] = random_key()
        self._make_room(min(FIRST_BYTES, max_bytes))

    def read(self, reader: LogReader, start: int, end_base: int, end_position: int) -> Iterator[Window]:
        """The windows from an offset up to an end, as `walk` has them. Raises CorruptLog,
        OSError."""
        words = self._words
        words[ReplayWindow.NEXT_OFFSET] = start
        for view in reader.views(start, end_base, end_position):
            offset = int(words[ReplayWindow.NEXT_OFFSET])
            position = reader.find_position(view.base_offset, offset) if offset > view.base_offset else 0
            yield from self._segment(view, position)

    def _segment(self, view: SegmentView, position: int) -> Iterator[Window]:
        words = self._words
        while position + b.HEADER_BYTES <= view.end:
            requested = min(len(self._buffer), view.end - position)
            filled = self._fill(view, position, requested)
            stop = read_window(self._words.ctypes.data)
            used = int(words[ReplayWindow.POSITION])
            if count := int(words[ReplayWindow.COUNT]):
                yield Window(self._buffer.data, self._rows[:count])
            if stop == ReplayStop.ODD:
                if is_unwritten(view, batch_bytes(self._buffer.data, used)):
                    return
                parse_batch(self._buffer.data[used:filled], position + used)  # raises
            position += used
            if used == 0:
                size = batch_bytes(self._buffer.data, 0)
                if is_torn(view, position, size, filled, requested):
                    return
                self._make_room(size)
            elif len(self._buffer) < self._max_bytes and view.end - position > len(self._buffer):
                self._make_room(self._max_bytes)

    def _fill(self, view: SegmentView, position: int, requested: int) -> int:
        """Read the next bytes of a segment into the window; how many."""
        filled = os.preadv(view.log.fd, [self._buffer.data[:requested]], position)
        words = self._words
        if words[ReplayWindow.COUNT]:
            self._index.fill(0)
            self._barriers.fill(0)
        words[ReplayWindow.END] = filled
        for word in (ReplayWindow.POSITION, ReplayWindow.COUNT, ReplayWindow.BARRIER):
            words[word] = 0
        return filled

    def _make_room(self, size: int) -> None:
        self._buffer = np.zeros(size, np.uint8)
        self._words[ReplayWindow.BUFFER] = self._buffer.ctypes.data
