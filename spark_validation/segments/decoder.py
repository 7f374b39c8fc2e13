"""Records out of batches, a few batches at a time: what is unpacked is decoded while it is in the
core's cache.

Unpacking a whole chunk first would write it to memory and fetch it again, which costs more than
codec and loops do.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_validation.segments import layout
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.identities import Identities, header_sums, identify
from spark_validation.segments.layout import Words
from spark_validation.segments.unpacking import unpack
from spark_validation.segments.walk import Chunk

GROUP_BYTES = 256 << 10  # of records, in plain, decoded in one go
EXPANSION = 8  # what a codec is taken to save, until it has unpacked
ROWS = 1 << 16  # of an Arrow batch, unless a single group has more
TEXT_BYTES = 16 << 20
TEXTS = {"key": rk.KEY_AT, "value": rk.VALUE_AT}
OF_IDENTITY = frozenset(Identities._fields)


class Decoded(NamedTuple):
    """found: rows of RECORD_COLUMNS; the others only where a wanted column is made of them."""

    found: Words
    identity: Identities | None
    header_sums: Words | None
    texts: dict[str, pa.Array]


class Texts:
    """A binary column that grows group by group, in Arrow's layout."""

    def __init__(self, column: int, rows: int) -> None:
        self._column = column
        self._ends = np.zeros(rows + 1, np.int32)
        self._valid = np.zeros((rows + 7) // 8, np.uint8)
        self._nulls = 0
        self._data = np.empty(0, np.uint8)

    def add(self, data: NDArray[np.uint8], found: Words, start: int, stop: int) -> None:
        sizes = int(np.maximum(found[start:stop, self._column + 1], 0).sum())
        used = int(self._ends[start])
        if used + sizes > len(self._data):
            grown = np.empty(max(used + sizes, TEXT_BYTES), np.uint8)
            grown[:used] = self._data[:used]
            self._data = grown
        self._nulls += rk.gather(data, found, self._column, start, stop, self._ends, self._valid, self._data)

    def array(self, rows: int) -> pa.Array:
        valid = pa.py_buffer(self._valid) if self._nulls else None
        data = pa.py_buffer(self._data[: int(self._ends[rows])])
        buffers = [valid, pa.py_buffer(self._ends[: rows + 1]), data]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, self._nulls)


class Decoder:
    """Decodes the records of one range. Owner: the task that reads it. names: the columns to fill.
    run: number of the load test's run, -1 for any."""

    def __init__(self, names: list[str], run: int) -> None:
        self._run = run
        self._identified = bool(OF_IDENTITY.intersection(names))
        self._summed = "header_sum" in names
        self._texts = [name for name in TEXTS if name in names]

    def decode(self, chunk: Chunk, picked: Words) -> Iterator[Decoded]:
        """The records of the picked batches of a chunk, at most ROWS at a time."""
        groups = groups_of(chunk, picked)
        counts = [int(chunk.rows[group, layout.RECORD_COUNT].sum()) for group in groups]
        sizes = [int(plain_sizes(chunk, group).sum()) for group in groups]
        at = 0
        while at < len(groups):
            end, rows, size = at + 1, counts[at], sizes[at]
            while end < len(groups) and rows + counts[end] <= ROWS and size + sizes[end] <= TEXT_BYTES:
                rows, size, end = rows + counts[end], size + sizes[end], end + 1
            yield from self._arrow_batch(chunk, groups[at:end], rows)
            at = end

    def _arrow_batch(self, chunk: Chunk, groups: list[Words], rows: int) -> Iterator[Decoded]:
        found = np.empty((rows, rk.RECORD_COLUMNS), np.int64)
        identities: list[Identities] = []
        sums: list[Words] = []
        texts = {name: Texts(TEXTS[name], rows) for name in self._texts}
        filled = 0
        for group in groups:
            data, _, count = decode_batches(chunk, group, found[filled:])
            part = found[filled : filled + count]
            if self._identified:
                identities.append(identify(data, part, self._run))
            if self._summed:
                sums.append(header_sums(data, part))
            for text in texts.values():
                text.add(data, found, filled, filled + count)
            filled += count
        if filled:
            identity = Identities(*map(np.concatenate, zip(*identities, strict=True))) if identities else None
            arrays = {name: text.array(filled) for name, text in texts.items()}
            yield Decoded(found[:filled], identity, np.concatenate(sums) if sums else None, arrays)


def decode_batches(chunk: Chunk, group: Words, out: Words) -> tuple[NDArray[np.uint8], Words, int]:
    """The buffer that the records of a group lie in, a row of WORK_COLUMNS a batch, and how many
    rows of `out`."""
    rows = chunk.rows[group]
    work = np.empty((len(group), rk.WORK_COLUMNS), np.int64)
    work[:, rk.ROW] = group
    work[:, rk.COUNT] = rows[:, layout.RECORD_COUNT]
    work[:, rk.FIRST_OFFSET] = rows[:, layout.BASE_OFFSET]
    work[:, rk.LAST_OFFSET] = rows[:, layout.LAST_OFFSET]
    work[:, rk.FIRST_TIMESTAMP] = rows[:, layout.BASE_TIMESTAMP]
    own_time = (rows[:, layout.ATTRIBUTES] & layout.LOG_APPEND_TIME) == 0
    work[:, rk.APPEND_TIME] = np.where(own_time, -1, rows[:, layout.MAX_TIMESTAMP])
    starts = rows[:, layout.POSITION] - chunk.position + layout.HEADER_BYTES
    ends = starts + rows[:, layout.SIZE] - layout.HEADER_BYTES
    codecs = rows[:, layout.ATTRIBUTES] & layout.CODEC_MASK
    data = chunk.buffer
    if codecs.any():
        view = chunk.buffer.data
        places = zip(codecs.tolist(), starts.tolist(), ends.tolist(), strict=True)
        parts = [unpack(codec, view[start:end]) or b"" for codec, start, end in places]
        data = np.frombuffer(b"".join(parts) or b"\0", np.uint8)
        sizes = np.array([len(part) for part in parts], np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
    work[:, rk.START], work[:, rk.END] = starts, ends
    return data, work, int(rk.decode(data, work, out))


def groups_of(chunk: Chunk, picked: Words) -> list[Words]:
    """The batches in groups of about GROUP_BYTES in plain."""
    if not len(picked):
        return []
    borders = np.flatnonzero(np.diff(np.cumsum(plain_sizes(chunk, picked)) // GROUP_BYTES)) + 1
    return np.split(picked, borders)


def plain_sizes(chunk: Chunk, picked: Words) -> Words:
    """The assumed size of each batch when it is unpacked, in bytes."""
    packed = (chunk.rows[picked, layout.ATTRIBUTES] & layout.CODEC_MASK) > 0
    return np.where(packed, EXPANSION, 1) * chunk.rows[picked, layout.SIZE]
