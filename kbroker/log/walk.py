"""Batches and records of a partition's folder one by one, for replay and for dumps; not for the
fetch path."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.log.open_files import OpenFile
from kbroker.log.reader import WHOLE_LOG, LogReader, SegmentView
from kbroker.protocol import batch_layout as b
from kbroker.protocol.records import RecordBatch, batch_at
from kbroker.protocol.schema import ProtocolError

CHUNK_BYTES = 1 << 20


class PlacedBatch(NamedTuple):
    """A batch and where it lies: base offset of its segment, byte position of its first byte."""

    segment_base: int
    position: int
    batch: RecordBatch


def parse_batch(data: memoryview, position: int) -> RecordBatch:
    """The batch that starts at the start of `data`; CRC is not checked. Raises CorruptLog,
    UnsupportedFormat."""
    if len(data) > b.MAGIC and data[b.MAGIC] in (0, 1):
        raise UnsupportedFormat(f"byte {position}: message format {data[b.MAGIC]}")
    try:
        batch = batch_at(data, 0)
    except ProtocolError as error:
        raise CorruptLog(f"byte {position}: no batch: {error}") from error
    if batch is None:
        raise CorruptLog(f"byte {position}: a batch of more than {len(data)} bytes")
    return batch


def read_batch(log: OpenFile, position: int, size: int) -> RecordBatch:
    """One batch of known size. Raises CorruptLog, OSError."""
    return parse_batch(memoryview(os.pread(log.fd, size, position)), position)


def batches_of(view: SegmentView, position: int = 0) -> Iterator[PlacedBatch]:
    """Batches of one segment from a batch start on; a torn tail ends the walk. Raises CorruptLog,
    OSError."""
    want = CHUNK_BYTES
    while position + b.HEADER_BYTES <= view.end:
        chunk = memoryview(os.pread(view.log.fd, min(want, view.end - position), position))
        at = 0
        while at + b.HEADER_BYTES <= len(chunk):
            size = _size(chunk, at)
            if size == b.LENGTH_OVERHEAD and view.last:
                return  # zeros of a preallocated file
            if size > 0 and at + size > len(chunk):
                break
            yield PlacedBatch(view.base_offset, position + at, parse_batch(chunk[at:], position + at))
            at += size
        want = CHUNK_BYTES
        if at == 0:  # not even one batch: a large one, or the torn tail
            want = _size(chunk, 0) if len(chunk) >= b.HEADER_BYTES else 0
            if want <= len(chunk) or position + want > view.end:
                return
        position += at


def walk(
    reader: LogReader, offset: int = 0, end_base: int = WHOLE_LOG[0], end_position: int = WHOLE_LOG[1]
) -> Iterator[PlacedBatch]:
    """Batches of a partition from the one that holds `offset` (or the next) up to an end; see
    LogReader for ends.

    Raises CorruptLog, OSError."""
    for view in reader.views(offset, end_base, end_position):
        start = reader.find_position(view.base_offset, offset) if offset > view.base_offset else 0
        for placed in batches_of(view, start):
            if placed.batch.last_offset >= offset:
                # a segment that compaction replaced meanwhile may come again
                offset = placed.batch.last_offset + 1
                yield placed


def _size(chunk: memoryview, at: int) -> int:
    """Bytes of the batch that starts at a byte of a chunk, as its length field has it."""
    return int.from_bytes(chunk[at + b.LENGTH : at + b.LENGTH + 4], signed=True) + b.LENGTH_OVERHEAD
