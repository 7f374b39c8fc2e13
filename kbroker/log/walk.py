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


def batch_bytes(data: memoryview, at: int) -> int:
    """Bytes of the batch that starts at a byte of `data`, by its length field."""
    return int.from_bytes(data[at + b.LENGTH : at + b.LENGTH_OVERHEAD], signed=True) + b.LENGTH_OVERHEAD


def is_unwritten(view: SegmentView, size: int) -> bool:
    """Whether `batch_bytes` are those of zeros: the rest of a preallocated file."""
    return view.last and size == b.LENGTH_OVERHEAD


def is_torn(view: SegmentView, position: int, size: int, read: int, requested: int) -> bool:
    """Whether the batch at a position is the torn tail of its segment. size: its `batch_bytes`.
    read: bytes of `requested` that the file has; fewer, if it was truncated meanwhile."""
    return read < max(requested, b.HEADER_BYTES) or position + size > view.end


def batches_of(view: SegmentView, position: int = 0) -> Iterator[PlacedBatch]:
    """Batches of one segment from a batch start on; a torn tail ends the walk. Raises CorruptLog,
    OSError."""
    needed_bytes = CHUNK_BYTES
    while position + b.HEADER_BYTES <= view.end:
        requested = min(needed_bytes, view.end - position)
        chunk = memoryview(os.pread(view.log.fd, requested, position))
        at = 0
        while at + b.HEADER_BYTES <= len(chunk):
            size = batch_bytes(chunk, at)
            if is_unwritten(view, size):
                return
            if size > 0 and at + size > len(chunk):
                break
            yield PlacedBatch(view.base_offset, position + at, parse_batch(chunk[at:], position + at))
            at += size
        needed_bytes = CHUNK_BYTES
        if at == 0:  # not even one batch: a large one, or the torn tail
            needed_bytes = batch_bytes(chunk, 0)
            if is_torn(view, position, needed_bytes, len(chunk), requested):
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
                # a segment that compaction has replaced meanwhile may be yielded again
                offset = placed.batch.last_offset + 1
                yield placed
