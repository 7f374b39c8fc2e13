"""Record batches (magic 2, KIP-98) in plain Python: built for internal topics, read for replay,
tools and tests.

The hot path never comes here: kernels scan client batches in place.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kbroker.protocol import batch_layout as layout
from kbroker.protocol.compression import MAX_BYTES, Codec, TooLong, bounded_pieces, compress, decompress
from kbroker.protocol.crc32c import crc32c
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import paced

Headers = Sequence[tuple[str, bytes | None]]
NewRecord = tuple[bytes | None, bytes | None, Headers, int]
"""(key, value, headers, timestamp in ms) of a record to be built."""

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
"""The 61 bytes before the records, in the order of batch_layout."""
_CONTROL_KEY: Final = struct.Struct(">hh")
_CONTROL_VALUE: Final = struct.Struct(">hi")
_NONE_PRODUCER: Final = (-1, -1, -1)


class ControlType(IntEnum):
    """Type of a transaction marker, from the key of its control record."""

    ABORT = 0
    COMMIT = 1


class Record(NamedTuple):
    """A record as read: absolute offset and timestamp in ms."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def contents_bytes(self) -> int:
        """Size of key, value and headers."""
        size = len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


class RecordBatch(NamedTuple):
    """A batch as read. `length` counts the bytes after itself; `data` is the whole batch, a slice
    of its source."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    data: memoryview

    @property
    def size(self) -> int:
        return self.length + layout.LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & layout.ATTRIBUTE_CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & layout.ATTRIBUTE_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & layout.ATTRIBUTE_CONTROL)

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & layout.ATTRIBUTE_LOG_APPEND_TIME)

    @property
    def crc_is_valid(self) -> bool:
        return self.crc == crc32c(self.data[layout.ATTRIBUTES :])


def write_varint(out: bytearray, value: int) -> None:
    """Appends a zigzag varint, as all lengths and deltas inside a record are."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(buf: bytes | memoryview, pos: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint of at most 10 bytes. IndexError at the end of
    the buffer."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 63:
            raise ProtocolError("a varint of more than 10 bytes in a record")


def read_varint32(buf: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """As `read_varint`, of at most 5 bytes: every number in a record but its timestamp. What the
    fifth byte has beyond 32 bits is left out, as by Kafka."""
    value = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
        if shift > 28:
            raise ProtocolError("a varint of more than 5 bytes in a record")


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


_VARINTS: Final = tuple(_varint(value) for value in range(2048))
"""Lengths, offset and time deltas of nearly all records, which are small, ready-made."""


def _sized(data: bytes | None) -> tuple[bytes, bytes]:
    if data is None:
        return b"\1", b""  # zigzag of -1
    size = len(data)
    return _VARINTS[size] if size < len(_VARINTS) else _varint(size), data


def _record(offset_delta: int, timestamp_delta: int, record: NewRecord) -> bytes:
    key, value, headers, _ = record
    body = b"".join(
        (
            b"\0",  # attributes, unused
            _VARINTS[timestamp_delta] if 0 <= timestamp_delta < len(_VARINTS) else _varint(timestamp_delta),
            _VARINTS[offset_delta] if offset_delta < len(_VARINTS) else _varint(offset_delta),
            *_sized(key),
            *_sized(value),
            _varint(len(headers)) if headers else b"\0",
            *(
                piece
                for name, content in headers
                for each in (name.encode(), content)
                for piece in _sized(each)
            ),
        )
    )
    return (_VARINTS[len(body)] if len(body) < len(_VARINTS) else _varint(len(body))) + body


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    producer: tuple[int, int, int] = _NONE_PRODUCER,
    partition_leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """A batch of at least one record; `producer` is (producer id, epoch, base sequence).

    `log_append_time_ms` marks the batch with the time of its append instead of the records' own timestamps.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    base_timestamp = records[0][3]
    body = b"".join(
        [_record(delta, record[3] - base_timestamp, record) for delta, record in enumerate(paced(records))]
    )
    attributes = int(codec)
    attributes |= layout.ATTRIBUTE_TRANSACTIONAL if transactional else 0
    attributes |= layout.ATTRIBUTE_CONTROL if control else 0
    max_timestamp = max(record[3] for record in paced(records))
    if log_append_time_ms is not None:
        attributes |= layout.ATTRIBUTE_LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    packed = compress(codec, body)
    fields = (attributes, len(records) - 1, base_timestamp, max_timestamp, *producer, len(records))
    return _seal(base_offset, partition_leader_epoch, fields, packed)


def _seal(base_offset: int, leader_epoch: int, fields: tuple[int, ...], packed: bytes) -> bytes:
    length = layout.HEADER_BYTES - layout.LENGTH_OVERHEAD + len(packed)
    out = bytearray(HEADER.pack(base_offset, length, leader_epoch, layout.MAGIC_V2, 0, *fields))
    out += packed
    struct.pack_into(">I", out, layout.CRC, crc32c(memoryview(out)[layout.ATTRIBUTES :]))
    return bytes(out)


def build_control_batch(
    type_: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """A transaction marker, as Kafka's EndTransactionMarker."""
    key, value = _CONTROL_KEY.pack(0, type_), _CONTROL_VALUE.pack(0, coordinator_epoch)
    return build_batch(
        [(key, value, (), timestamp_ms)],
        base_offset=base_offset,
        producer=(producer_id, producer_epoch, -1),
        partition_leader_epoch=partition_leader_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: RecordBatch) -> tuple[ControlType, int]:
    """(type, coordinator epoch) of a control batch that is a transaction marker; ProtocolError for
    other batches."""
    record = next(read_records(batch))
    if record.key is None or record.value is None:
        raise ProtocolError("a control record without key or value")
    if len(record.key) < _CONTROL_KEY.size or len(record.value) < _CONTROL_VALUE.size:
        raise ProtocolError("a control record is too short")
    _, type_ = _CONTROL_KEY.unpack_from(record.key)
    if type_ not in (ControlType.ABORT, ControlType.COMMIT):
        raise ProtocolError(f"control record type {type_} is not a transaction marker")
    return ControlType(type_), int(_CONTROL_VALUE.unpack_from(record.value)[1])


def batch_at(view: memoryview, pos: int) -> RecordBatch | None:
    """The batch at a byte of a buffer, None when it is truncated. ProtocolError for another magic
    or an impossible length; the CRC is not checked."""
    if len(view) - pos < layout.HEADER_BYTES:
        return None
    fields = HEADER.unpack_from(view, pos)
    size = fields[1] + layout.LENGTH_OVERHEAD
    if fields[3] != layout.MAGIC_V2:
        raise ProtocolError(f"byte {pos}: batch of magic {fields[3]}, only 2 is read")
    if size < layout.HEADER_BYTES:
        raise ProtocolError(f"byte {pos}: batch length {fields[1]}")
    if size > len(view) - pos:
        return None
    return RecordBatch._make((*fields, view[pos : pos + size]))


def read_batches(
    data: bytes | memoryview, *, check_crc: bool = True, whole: bool = False
) -> Iterator[RecordBatch]:
    """The batches of a buffer in order. Ends before a truncated one, as a fetch answer may end;
    `whole` refuses it.

    ProtocolError for another magic, an impossible length, or a CRC that does not match.
    """
    view = memoryview(data)
    pos = 0
    while (batch := batch_at(view, pos)) is not None:
        if check_crc and not batch.crc_is_valid:
            raise ProtocolError(f"byte {pos}: CRC of the batch at offset {batch.base_offset} does not match")
        yield batch
        pos += batch.size
    if whole and pos < len(view):
        raise ProtocolError(f"byte {pos}: the last batch is truncated")


def read_records(
    batch: RecordBatch, max_bytes: int = MAX_BYTES, max_headers: int = MAX_BYTES
) -> Iterator[Record]:
    """The records of a batch. `max_bytes` bounds what they take decompressed, `max_headers` the
    headers of all of them: one of two bytes takes a hundred bytes of memory. ProtocolError when
    damaged, TooLong for more."""
    buf = decompress(batch.codec, batch.data[layout.RECORDS :], max_bytes)
    append_time = batch.max_timestamp if batch.has_log_append_time else None
    pos = 0
    try:
        for _ in range(batch.record_count):
            size, pos = read_varint32(buf, pos)
            end = pos + size
            if size < 0 or end > len(buf):
                raise ProtocolError("a record ends after its batch")
            record = _read_record(batch, buf[pos:end], append_time, max_headers)
            max_headers -= len(record.headers)
            yield record
            pos = end
    except IndexError as error:
        raise ProtocolError(
            f"a record of the batch at offset {batch.base_offset} is damaged: {error}"
        ) from error
    if pos != len(buf):
        raise ProtocolError(f"{len(buf) - pos} bytes after the last record of a batch")


def read_records_in_pieces(batch: RecordBatch, max_bytes: int, max_headers: int) -> Iterator[Record]:
    """As `read_records`, but a piece of a batch is decompressed at a time: what a record takes is
    bounded, not what all of them take. max_bytes, max_headers: of a record; TooLong for more."""
    append_time = batch.max_timestamp if batch.has_log_append_time else None
    left, buf = batch.record_count, bytearray()
    for piece in bounded_pieces(batch.codec, batch.data[layout.RECORDS :], MAX_BYTES):
        buf += piece
        pos = 0
        while left > 0:
            try:
                size, start = read_varint32(buf, pos)
            except IndexError:  # the rest of the number is in the next piece
                break
            if size < 0:
                raise ProtocolError("a record ends after its batch")
            if size > max_bytes:
                raise TooLong(f"a record of {size} bytes, more than the {max_bytes} allowed")
            if start + size > len(buf):
                break
            pos = start + size
            try:
                yield _read_record(batch, bytes(buf[start:pos]), append_time, max_headers)
            except IndexError as error:
                where = f"a record of the batch at offset {batch.base_offset}"
                raise ProtocolError(f"{where} is damaged: {error}") from error
            left -= 1
        del buf[:pos]
        if buf and left <= 0:
            raise ProtocolError("bytes after the last record of a batch")
    if left > 0 or buf:
        raise ProtocolError("a record ends after its batch")


def _read_record(
    batch: RecordBatch, buf: bytes | memoryview, append_time: int | None, max_headers: int
) -> Record:
    timestamp_delta, pos = read_varint(buf, 1)  # after the unused attributes
    offset_delta, pos = read_varint32(buf, pos)
    key, pos = _read_sized(buf, pos)
    value, pos = _read_sized(buf, pos)
    count, pos = read_varint32(buf, pos)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if count:
        if not 0 < count <= len(buf) - pos:
            raise ProtocolError(f"a record with {count} headers")
        if count > max_headers:
            raise TooLong("the records have more headers than allowed")
        found: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, pos = _read_sized(buf, pos)
            content, pos = _read_sized(buf, pos)
            if name is None:
                raise ProtocolError("a record header without a name")
            found.append((str(name, "utf-8", "replace"), content))  # as Kafka's readers do
        headers = tuple(found)
    if pos != len(buf):
        raise ProtocolError(f"{len(buf) - pos} bytes after the headers of a record")
    timestamp = batch.base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(batch.base_offset + offset_delta, timestamp, key, value, headers)


def _read_sized(buf: bytes | memoryview, pos: int) -> tuple[bytes | None, int]:
    size, pos = read_varint32(buf, pos)
    if size < 0:
        return None, pos
    end = pos + size
    if end > len(buf):
        raise ProtocolError("a key, value or header ends after its record")
    return bytes(buf[pos:end]), end


def read_all(data: bytes | memoryview) -> Iterable[Record]:
    """All records of all whole batches of a buffer, control records left out."""
    for batch in read_batches(data):
        if not batch.is_control:
            yield from read_records(batch)
