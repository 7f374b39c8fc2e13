"""Records out of batches, a few batches at a time: what is unpacked is decoded while it is in the core's cache.

Unpacking a whole chunk first would write it to memory and fetch it again, which costs more than codec and kernels do.
"""

from collections.abc import Iterator

import cramjam
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.protocol import batch_layout as b
from kbroker.protocol.compression import Codec, decompress
from kbroker.protocol.schema import ProtocolError
from spark_validation.segments import decode_kernel as dk
from spark_validation.segments.columns import IDENTITY, TEXTS
from spark_validation.segments.walk import Chunk

Words = NDArray[np.int64]
GROUP_BYTES = 256 << 10  # of records, in plain, decoded in one go
EXPANSION = 8  # what a codec is taken to save, until it has unpacked
ROOM_BYTES = 4 * GROUP_BYTES
ROWS = 1 << 16  # of an Arrow batch, unless a single group has more
TEXT_BYTES = 16 << 20


class Plain:
    """Room for unpacked records, used again for each group. What does not fit is kept apart until the next `begin`."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.uint8)
        self._used = 0
        self._apart: list[bytes | memoryview] = []

    def begin(self) -> None:
        """What was unpacked before is over."""
        if not len(self._room):
            self._room = np.empty(ROOM_BYTES, np.uint8)
        self._used = 0
        self._apart.clear()

    def unpack(self, codec: int, packed: memoryview) -> tuple[int, int]:
        """(address, size) of a batch's records; (0, 0) when its data is damaged."""
        room = self._room[self._used :]
        if codec == Codec.LZ4:
            try:
                size = cramjam.lz4.decompress_into(packed, room.data)
            except cramjam.DecompressionError:  # too large, or damaged
                pass
            else:
                self._used += size
                return room.ctypes.data, size
        try:
            plain = decompress(codec, packed)
        except ProtocolError:  # the batch chain check names it
            return 0, 0
        self._apart.append(plain)
        return np.frombuffer(plain, np.uint8).ctypes.data if plain else 0, len(plain)


class Texts:
    """A binary column that grows group by group, in Arrow's layout."""

    def __init__(self, column: int, rows: int) -> None:
        self._column = column
        self._ends = np.empty(rows + 1, np.int32)
        self._ends[0] = 0
        self._valid = np.zeros((rows + 7) // 8, np.uint8)
        self._nulls = 0
        self._data = pa.allocate_buffer(0)

    def add(self, found: Words, start: int, stop: int) -> None:
        sizes = int(np.maximum(found[start:stop, self._column + 1], 0).sum())
        wanted = int(self._ends[start]) + sizes
        if wanted > self._data.size:
            grown = pa.allocate_buffer(max(wanted, TEXT_BYTES))
            if start:
                np.frombuffer(grown, np.uint8)[: self._ends[start]] = np.frombuffer(self._data, np.uint8)[
                    : self._ends[start]
                ]
            self._data = grown
        self._nulls += dk.gather(
            found, self._column, start, stop, self._ends, self._valid, self._data.address
        )

    def array(self, rows: int) -> pa.Array:
        valid = pa.py_buffer(self._valid) if self._nulls else None
        data = self._data.slice(0, int(self._ends[rows]))
        buffers = [valid, pa.py_buffer(self._ends[: rows + 1]), data]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, self._nulls)


class Decoder:
    """Of one range. Owner: the task that reads it. names: columns wanted; run: of the load test, -1 is any."""

    def __init__(self, names: list[str], run: int) -> None:
        self._run = run
        self._identified = bool(IDENTITY.intersection(names))
        self._texts = [name for name in TEXTS if name in names]
        self._plain = Plain()
        self._found = np.empty((0, dk.RECORD_COLUMNS), np.int64)
        self._identity = np.empty((0, dk.IDENTITY_COLUMNS), np.int64)

    def decode(self, chunk: Chunk, picked: Words) -> Iterator[tuple[Words, Words, dict[str, pa.Array]]]:
        """Picked batches of a chunk: rows of RECORD_COLUMNS, of IDENTITY_COLUMNS, and the binary columns.

        The rows are valid until the next ones are asked for.
        """
        groups = groups_of(chunk, picked)
        counts = [int(chunk.rows[group, ScannedBatch.RECORD_COUNT].sum()) for group in groups]
        sizes = [int(plain_sizes(chunk, group).sum()) for group in groups]
        at = 0
        while at < len(groups):
            end, rows, size = at + 1, counts[at], sizes[at]
            while end < len(groups) and rows + counts[end] <= ROWS and size + sizes[end] <= TEXT_BYTES:
                rows, size, end = rows + counts[end], size + sizes[end], end + 1
            yield from self._arrow_batch(chunk, groups[at:end], rows)
            at = end

    def _arrow_batch(
        self, chunk: Chunk, groups: list[Words], rows: int
    ) -> Iterator[tuple[Words, Words, dict[str, pa.Array]]]:
        if rows > len(self._found):
            self._found = np.empty((max(rows, ROWS), dk.RECORD_COLUMNS), np.int64)
            if self._identified:
                self._identity = np.empty((max(rows, ROWS), dk.IDENTITY_COLUMNS), np.int64)
        found, identity = self._found, self._identity
        texts = {name: Texts(TEXTS[name], rows) for name in self._texts}
        filled = 0
        for group in groups:
            stop = filled + self._unpack(chunk, group, found[filled:])
            if self._identified:
                dk.identities(found, filled, stop, self._run, identity[filled:])
            for text in texts.values():
                text.add(found, filled, stop)
            filled = stop
        if filled:
            arrays = {name: text.array(filled) for name, text in texts.items()}
            yield found[:filled], identity[:filled], arrays

    def _unpack(self, chunk: Chunk, group: Words, out: Words) -> int:
        """Decodes a group's batches into rows of RECORD_COLUMNS; gives how many."""
        rows = chunk.rows
        addresses = chunk.addresses[group] + b.HEADER_BYTES
        lengths = rows[group, ScannedBatch.SIZE] - b.HEADER_BYTES
        codecs = rows[group, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CODEC_MASK
        packed = np.flatnonzero(codecs)
        if len(packed):
            self._plain.begin()
            base, data = chunk.buffer.ctypes.data, chunk.buffer.data
            for n in packed.tolist():
                at = int(addresses[n]) - base
                addresses[n], lengths[n] = self._plain.unpack(int(codecs[n]), data[at : at + int(lengths[n])])
        damaged = np.zeros(len(group), np.uint8)
        return int(dk.records(rows, group, addresses, lengths, len(group), out, damaged))


def groups_of(chunk: Chunk, picked: Words) -> list[Words]:
    """The batches in groups of about GROUP_BYTES in plain."""
    if not len(picked):
        return []
    borders = np.flatnonzero(np.diff(np.cumsum(plain_sizes(chunk, picked)) // GROUP_BYTES)) + 1
    return np.split(picked, borders)


def plain_sizes(chunk: Chunk, picked: Words) -> Words:
    """What each batch is taken to hold when it is unpacked, in bytes."""
    packed = (chunk.rows[picked, ScannedBatch.ATTRIBUTES] & b.ATTRIBUTE_CODEC_MASK) > 0
    return np.where(packed, EXPANSION, 1) * chunk.rows[picked, ScannedBatch.SIZE]
