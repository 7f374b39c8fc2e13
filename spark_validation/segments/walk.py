"""Batches of a range in large chunks, and the outcomes of its transactions."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_validation.segments import layout
from spark_validation.segments.headers import scan
from spark_validation.segments.layout import Fault
from spark_validation.segments.ranges import Piece, Range

CHUNK_BYTES = 8 << 20

VISIBLE = 0  # to read_committed: not transactional, or committed
ABORTED = 1
OPEN = 2  # the log holds no marker of its transaction yet
CONTROL = 3


class Chunk(NamedTuple):
    """Whole batches in memory. rows: BATCH_COLUMNS each, POSITION in the file; `position`: of the
    buffer's start."""

    piece: Piece
    buffer: NDArray[np.uint8]
    position: int
    rows: NDArray[np.int64]


def chunks(folder: str, pieces: tuple[Piece, ...], check_crc: bool) -> Iterator[Chunk]:
    """All batches of pieces in order. What is no batch comes as a last row of its piece that has a
    FAULT.

    A chunk is valid until the next one is asked for.
    """
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    for piece in pieces:
        try:
            fd = os.open(layout.segment_path(folder, piece.segment, layout.LOG_FILE), os.O_RDONLY)
        except FileNotFoundError:
            continue  # retention took the segment after the planning; offsets below the log start count for nothing
        try:
            position = piece.start
            while position < piece.end:
                want = min(buffer.size, piece.end - position)
                got = os.preadv(fd, [buffer.data[:want]], position)
                found = scan(buffer, got, position, check_crc)
                if len(found.rows):
                    # What stopped it is looked at from its own start: a batch may end just where a
                    # chunk does.
                    yield Chunk(piece, buffer, position, found.rows)
                    position += found.consumed
                    continue
                size = batch_size(buffer, got) if found.stop == Fault.TORN else 0
                if buffer.size < size <= piece.end - position:
                    buffer = np.empty(size, np.uint8)
                    continue
                if not (piece.last and not count_is_damage(buffer, got)):
                    yield Chunk(piece, buffer, position, damage(position, found.stop))
                break
        finally:
            os.close(fd)


def batch_size(buffer: NDArray[np.uint8], got: int) -> int:
    """Bytes of the batch a buffer starts with; 0 when there is not even its length."""
    at = layout.LENGTH_AT
    if got < at + 4:
        return 0
    return int.from_bytes(buffer[at : at + 4].tobytes(), signed=True) + layout.LENGTH_OVERHEAD


def count_is_damage(buffer: NDArray[np.uint8], got: int) -> bool:
    """Whether the rest of the newest segment is more than a write in progress or a preallocated
    file's zeros. Of a length that is written in part, what is there is nothing or more than a
    header's."""
    if got < layout.HEADER_BYTES or not buffer[: min(got, 4096)].any():
        return False
    too_short = batch_size(buffer, got) < layout.HEADER_BYTES and buffer[layout.LENGTH_AT :][:4].any()
    return bool(buffer[layout.MAGIC_AT] != layout.MAGIC or too_short)


def damage(position: int, stop: Fault) -> NDArray[np.int64]:
    """A row for bytes that are no batch."""
    row = np.full((1, layout.BATCH_COLUMNS), -1, np.int64)
    row[0, layout.POSITION] = position
    row[0, [layout.SIZE, layout.RECORD_COUNT, layout.ATTRIBUTES]] = 0
    row[0, layout.FAULT] = Fault.TORN if stop == Fault.SOUND else stop
    return row


class BatchStates(NamedTuple):
    """A value for each batch of a chunk. state: VISIBLE, ABORTED, OPEN or CONTROL. marker: offset
    of the marker that ended its transaction, -1 without one."""

    state: NDArray[np.int8]
    marker: NDArray[np.int64]


def batch_states(work: Range) -> list[BatchStates]:
    """The states of each chunk that `chunks` yields for the range.

    A transaction that is open at the range's end is followed into the next pieces.
    """
    found: list[BatchStates] = []
    open_batches: dict[int, list[tuple[int, int]]] = {}
    for number, chunk in enumerate(chunks(work.folder, work.pieces, False)):
        rows = chunk.rows
        control = rows[:, layout.ATTRIBUTES] & layout.CONTROL
        state = np.where(control, CONTROL, VISIBLE).astype(np.int8)
        found.append(BatchStates(state, np.full(len(rows), -1, np.int64)))
        for n in np.flatnonzero(rows[:, layout.ATTRIBUTES] & layout.TRANSACTIONAL).tolist():
            producer_id = int(rows[n, layout.PRODUCER_ID])
            if state[n] == CONTROL:
                settle(found, open_batches.pop(producer_id, []), rows[n])
            else:
                state[n] = OPEN
                open_batches.setdefault(producer_id, []).append((number, n))
    if open_batches:
        for chunk in chunks(work.folder, work.later, False):
            rows = chunk.rows
            for n in np.flatnonzero(rows[:, layout.ATTRIBUTES] & layout.CONTROL).tolist():
                settle(found, open_batches.pop(int(rows[n, layout.PRODUCER_ID]), []), rows[n])
            if not open_batches:
                break
    return found


def settle(found: list[BatchStates], batches: list[tuple[int, int]], marker: NDArray[np.int64]) -> None:
    """Writes what a marker says into the batches of its transaction."""
    for number, n in batches:
        found[number].state[n] = VISIBLE if marker[layout.CONTROL_TYPE] == layout.COMMIT else ABORTED
        found[number].marker[n] = marker[layout.BASE_OFFSET]
