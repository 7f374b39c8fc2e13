"""Batch headers of bytes that start with a batch, as rows of numbers; checksums by a library."""

import struct
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from spark_validation.segments import layout
from spark_validation.segments.layout import Fault, Words

MAX_RECORDS = 1 << 24  # of a batch: room is made for so many before they are decoded
_LENGTH = struct.Struct(">i")
_FIELDS = np.arange(layout.HEADER_BYTES)
_PLAIN = (  # columns that are header fields as they are
    (layout.BASE_OFFSET, "base_offset"),
    (layout.BASE_TIMESTAMP, "base_timestamp"),
    (layout.MAX_TIMESTAMP, "max_timestamp"),
    (layout.LEADER_EPOCH, "leader_epoch"),
    (layout.ATTRIBUTES, "attributes"),
    (layout.PRODUCER_ID, "producer_id"),
    (layout.PRODUCER_EPOCH, "producer_epoch"),
    (layout.BASE_SEQUENCE, "base_sequence"),
    (layout.RECORD_COUNT, "record_count"),
)


class Scanned(NamedTuple):
    """rows: BATCH_COLUMNS each; consumed: bytes that whole batches took; stop: why the walk ended
    there."""

    rows: Words
    consumed: int
    stop: Fault


def scan(buffer: NDArray[np.uint8], length: int, position: int, check_crc: bool) -> Scanned:
    """The whole batches among the first `length` bytes; `position`: of the buffer in its file.

    A batch with a wrong checksum or count is kept, marked.
    """
    data = buffer.data[:length]
    starts, consumed, stop = walk(data)
    at = np.array(starts, np.int64)
    rows = np.full((len(at), layout.BATCH_COLUMNS), -1, np.int64)
    if not len(at):
        return Scanned(rows, consumed, stop)
    head = buffer[at[:, None] + _FIELDS].view(layout.HEADER).reshape(-1)
    for column, name in _PLAIN:
        rows[:, column] = head[name]
    rows[:, layout.POSITION] = at + position
    rows[:, layout.SIZE] = head["length"].astype(np.int64) + layout.LENGTH_OVERHEAD
    rows[:, layout.LAST_OFFSET] = rows[:, layout.BASE_OFFSET] + head["last_offset_delta"]
    rows[:, layout.FAULT] = faults(head)
    if check_crc:
        check(data, at, rows, head["crc"])
    for n in np.flatnonzero(rows[:, layout.ATTRIBUTES] & layout.CONTROL).tolist():
        start = int(at[n]) + layout.HEADER_BYTES
        marker = control_record(data[start : int(at[n] + rows[n, layout.SIZE])])
        rows[n, layout.CONTROL_TYPE], rows[n, layout.COORDINATOR_EPOCH] = marker
    return Scanned(rows, consumed, stop)


def walk(data: memoryview) -> tuple[list[int], int, Fault]:
    """Starts of the whole batches, the byte after the last one, and what is there."""
    found: list[int] = []
    at, end = 0, len(data)
    length_of = _LENGTH.unpack_from
    while end - at >= layout.HEADER_BYTES:
        size = length_of(data, at + layout.LENGTH_AT)[0] + layout.LENGTH_OVERHEAD
        if size < layout.HEADER_BYTES:
            magic = data[at + layout.MAGIC_AT]
            return found, at, Fault.OLD_FORMAT if magic < layout.MAGIC else Fault.BAD_LENGTH
        if size > end - at:
            return found, at, Fault.TORN
        found.append(at)
        at += size
    return found, at, Fault.SOUND if at == end else Fault.TORN


def faults(head: NDArray[np.void]) -> Words:
    """The columns of the headers alone."""
    found = np.full(len(head), Fault.SOUND, np.int64)
    delta, count = head["last_offset_delta"].astype(np.int64), head["record_count"].astype(np.int64)
    found[(delta < 0) | (count < 0) | (count > delta + 1) | (count > MAX_RECORDS)] = Fault.BAD_COUNT
    found[head["magic"] != layout.MAGIC] = Fault.BAD_MAGIC
    found[(head["magic"] == 0) | (head["magic"] == 1)] = Fault.OLD_FORMAT
    return found


def check(data: memoryview, at: Words, rows: Words, expected: NDArray[np.uint32]) -> None:
    """Mark batches whose checksum is wrong."""
    begins = (at + layout.CHECKED_FROM).tolist()
    ends = (at + rows[:, layout.SIZE]).tolist()
    sums = [crc32c(data[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    wrong = np.array(sums, np.uint32) != expected
    rows[wrong & np.isin(rows[:, layout.FAULT], (Fault.SOUND, Fault.BAD_COUNT)), layout.FAULT] = Fault.BAD_CRC


def control_record(records: memoryview) -> tuple[int, int]:
    """Type (0 abort, 1 commit) and coordinator epoch of a marker, from the key and the value of its
    only record; -1 for a missing one, or for one of a version that no broker writes."""
    try:
        _, at = varint(records, 0)
        _, at = varint(records, at + 1)  # timestamp, after the attributes
        _, at = varint(records, at)  # offset
        size, at = varint(records, at)
    except IndexError:
        return -1, -1
    if size < 4 or at + 4 > len(records):
        return -1, -1
    key_version = int.from_bytes(records[at : at + 2], signed=True)
    kind = int.from_bytes(records[at + 2 : at + 4], signed=True)
    try:
        length, at = varint(records, at + size)
    except IndexError:
        return kind, -1
    value_version = int.from_bytes(records[at : at + 2], signed=True)
    if length < 6 or at + 6 > len(records) or key_version or value_version < 0:
        return kind, -1
    return kind, int.from_bytes(records[at + 2 : at + 6], signed=True)


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint. IndexError at the end of the data."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 or shift > 63:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
