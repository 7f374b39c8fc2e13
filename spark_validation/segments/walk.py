"""Batches of a range in large chunks, and the fate of its transactions."""

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.scan_rows import ScannedBatch, ScanStop
from kbroker.log import files
from kbroker.protocol import batch_layout as b
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments.ranges import Piece, Range

CHUNK_BYTES = 8 << 20
ROWS = 1 << 16

VISIBLE = 0  # to read_committed: not transactional, or committed
ABORTED = 1
OPEN = 2  # the log holds no marker of its transaction yet
CONTROL = 3


class Chunk(NamedTuple):
    """Whole batches in memory. rows: BATCH_COLUMNS each, POSITION in the file; address: of byte `position`."""

    piece: Piece
    buffer: NDArray[np.uint8]
    position: int
    rows: NDArray[np.int64]

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Address of each batch."""
        return self.rows[:, ScannedBatch.POSITION] - self.position + self.buffer.ctypes.data


def chunks(folder: str, pieces: tuple[Piece, ...], check_crc: bool) -> Iterator[Chunk]:
    """All batches of pieces in order. What is no batch comes as a last row of its piece that has a FAULT.

    A chunk is valid until the next one is asked for.
    """
    buffer = np.empty(CHUNK_BYTES, np.uint8)
    rows = np.empty((ROWS, dk.BATCH_COLUMNS), np.int64)
    state = np.zeros(dk.STATE_WORDS, np.int64)
    for piece in pieces:
        try:
            fd = os.open(files.path(folder, piece.segment, files.LOG), os.O_RDONLY)
        except FileNotFoundError:
            continue  # retention took the segment after the planning; offsets below the log start count for nothing
        try:
            position = piece.start
            while position < piece.end:
                want = min(buffer.size, piece.end - position)
                got = os.preadv(fd, [buffer.data[:want]], position)
                count = dk.headers(buffer.ctypes.data, got, position, check_crc, rows, state)
                if count:
                    # What stopped it is looked at from its own start: a batch may end just where a chunk does.
                    yield Chunk(piece, buffer, position, rows[:count])
                    position += int(state[dk.CONSUMED])
                    continue
                size = batch_size(buffer, got) if state[dk.STOP] == ScanStop.TORN else 0
                if buffer.size < size <= piece.end - position:
                    buffer = np.empty(size, np.uint8)
                    continue
                if not (piece.last and not count_is_damage(buffer, got)):
                    yield Chunk(piece, buffer, position, damage(rows, position, int(state[dk.STOP])))
                break
        finally:
            os.close(fd)


def batch_size(buffer: NDArray[np.uint8], got: int) -> int:
    """Bytes of the batch a buffer starts with; 0 when there is not even its length."""
    if got < b.LENGTH + 4:
        return 0
    return int.from_bytes(buffer[b.LENGTH : b.LENGTH + 4].tobytes(), signed=True) + b.LENGTH_OVERHEAD


def count_is_damage(buffer: NDArray[np.uint8], got: int) -> bool:
    """Whether the rest of the newest segment is more than a write under way or a preallocated file's zeros."""
    if not buffer[: min(got, 4096)].any():
        return False
    return got >= b.HEADER_BYTES and buffer[b.MAGIC] != b.MAGIC_V2


def damage(rows: NDArray[np.int64], position: int, stop: int) -> NDArray[np.int64]:
    """A row for bytes that are no batch."""
    rows[0, :] = -1
    rows[0, ScannedBatch.POSITION] = position
    rows[0, ScannedBatch.SIZE] = 0
    rows[0, ScannedBatch.RECORD_COUNT] = 0
    rows[0, ScannedBatch.ATTRIBUTES] = 0
    rows[0, dk.FAULT] = ScanStop.TORN if stop == ScanStop.END else stop
    return rows[:1]


def states(work: Range) -> list[NDArray[np.int8]]:
    """For each chunk that `chunks` gives for the range: VISIBLE, ABORTED, OPEN or CONTROL of every batch.

    A transaction that is open at the range's end is followed into the next pieces.
    """
    found: list[NDArray[np.int8]] = []
    open_batches: dict[int, list[tuple[int, int]]] = {}
    for number, chunk in enumerate(chunks(work.folder, work.pieces, False)):
        rows = chunk.rows
        state = np.where(rows[:, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CONTROL, CONTROL, VISIBLE).astype(
            np.int8
        )
        found.append(state)
        for n in np.flatnonzero(rows[:, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_TRANSACTIONAL):
            producer_id = int(rows[n, ScannedBatch.PRODUCER_ID])
            if state[n] == CONTROL:
                settle(found, open_batches.pop(producer_id, []), int(rows[n, ScannedBatch.CONTROL_TYPE]))
            else:
                state[n] = OPEN
                open_batches.setdefault(producer_id, []).append((number, int(n)))
    if open_batches:
        for chunk in chunks(work.folder, work.later, False):
            rows = chunk.rows
            for n in np.flatnonzero(rows[:, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CONTROL):
                settle(
                    found,
                    open_batches.pop(int(rows[n, ScannedBatch.PRODUCER_ID]), []),
                    int(rows[n, ScannedBatch.CONTROL_TYPE]),
                )
            if not open_batches:
                break
    return found


def settle(found: list[NDArray[np.int8]], batches: list[tuple[int, int]], control_type: int) -> None:
    """Writes what a marker says into the batches of its transaction."""
    for number, n in batches:
        found[number][n] = VISIBLE if control_type == 1 else ABORTED
