"""Batches and records of a partition's folder one by one, for replay and for dumps; not for the fetch path."""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.log.open_files import OpenFile
from kbroker.log.reader import WHOLE_LOG, LogReader, SegmentView
from kbroker.protocol import batch_layout as b

HEADER = struct.Struct(">qiibIhiqqqhii")  # batch_layout's fields in order
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch (magic 2) read whole. position: of its first byte in its segment; data: all its bytes."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: memoryview

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & b.ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & b.ATTRIBUTE_CONTROL)

    @property
    def codec(self) -> int:
        """Compression codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & b.ATTRIBUTE_CODEC_MASK


def parse_batch(data: memoryview, position: int) -> Batch:
    """The batch that starts at the start of `data`; CRC is not checked. Raises CorruptLog, UnsupportedFormat."""
    if len(data) < b.HEADER_BYTES:
        raise CorruptLog(f"byte {position}: {len(data)} bytes are too few for a batch")
    base, length, epoch, magic, crc, attributes, delta, base_ms, max_ms, pid, pid_epoch, sequence, count = (
        HEADER.unpack_from(data)
    )
    if magic in (0, 1):
        raise UnsupportedFormat(f"byte {position}: message format {magic}")
    size = length + b.LENGTH_OVERHEAD
    if magic != b.MAGIC_V2 or size < b.HEADER_BYTES or size > len(data):
        raise CorruptLog(f"byte {position}: no batch (magic {magic}, length {length})")
    return Batch(
        position=position,
        size=size,
        base_offset=base,
        last_offset=base + delta,
        leader_epoch=epoch,
        crc=crc,
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=max_ms,
        producer_id=pid,
        producer_epoch=pid_epoch,
        base_sequence=sequence,
        record_count=count,
        data=data[:size],
    )


def read_batch(log: OpenFile, position: int, size: int) -> Batch:
    """One batch of known size. Raises CorruptLog, OSError."""
    return parse_batch(memoryview(os.pread(log.fd, size, position)), position)


def batches_of(view: SegmentView, position: int = 0) -> Iterator[Batch]:
    """Batches of one segment from a batch start on; a torn tail ends the walk. Raises CorruptLog, OSError."""
    want = CHUNK_BYTES
    while position + b.HEADER_BYTES <= view.end:
        chunk = memoryview(os.pread(view.log.fd, min(want, view.end - position), position))
        at = 0
        while at + b.HEADER_BYTES <= len(chunk):
            size = int.from_bytes(chunk[at + b.LENGTH : at + b.LENGTH + 4], signed=True) + b.LENGTH_OVERHEAD
            if size == b.LENGTH_OVERHEAD and view.last:
                return  # zeros of a preallocated file
            if size > 0 and at + size > len(chunk):
                break
            batch = parse_batch(chunk[at:], position + at)
            yield batch
            at += batch.size
        if at == 0:  # not even one batch: a larger one, or the torn tail
            needed = int.from_bytes(chunk[b.LENGTH : b.LENGTH + 4], signed=True) + b.LENGTH_OVERHEAD
            if position + needed > view.end or len(chunk) >= needed:
                return
            want = needed
        else:
            want = CHUNK_BYTES
        position += at


def walk(
    reader: LogReader, offset: int = 0, end_base: int = WHOLE_LOG[0], end_position: int = WHOLE_LOG[1]
) -> Iterator[Batch]:
    """Batches of a partition from the one that holds `offset` (or the next) up to an end; see LogReader for ends.

    Raises CorruptLog, OSError."""
    for view in reader.views(offset, end_base, end_position):
        start = reader.find_position(view.base_offset, offset) if offset > view.base_offset else 0
        for batch in batches_of(view, start):
            if batch.last_offset >= offset:
                yield batch
