"""The records of a compressed batch as a stream: the head of each record, the first bytes of its
key and value, or the same bytes with consecutive offset deltas.

Nothing larger than a piece is held, however large the records are. Record sizes are trusted:
`record_walk` has checked them. Runs in: network; pure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import pieces
from kbroker.protocol.records import RecordBatch, read_varint, read_varint32, write_varint
from kbroker.protocol.schema import ProtocolError

HEAD_BYTES: Final = 40
"""Enough for size, attributes, timestamp, offset and length of the key, as varints."""
PREFIX_BYTES: Final = 5
"""First bytes of a key or value, which name its schema."""


class Head(NamedTuple):
    """Head of a record. size: its bytes after the size field itself."""

    size: int
    timestamp_delta: int
    offset_delta: int
    has_key: bool


class _Plain:
    """The decompressed bytes of a batch from `at` on: a piece, and more only if requested."""

    __slots__ = ("_pieces", "at", "data")

    def __init__(self, batch: RecordBatch) -> None:
        self._pieces = pieces(batch.codec, batch.data[rb.RECORDS :])
        self.data: bytes | memoryview = b""
        self.at = 0

    def ensure(self, count: int) -> None:
        """Read until this number of bytes is present, or no more follow."""
        while len(self.data) - self.at < count:
            more = next(self._pieces, None)
            if more is None:
                return
            self.data = bytes(self.data[self.at :]) + bytes(more)
            self.at = 0

    def take(self, count: int) -> Iterator[memoryview]:
        """The next bytes, piece by piece. Raises ProtocolError."""
        while count:
            if self.at == len(self.data):
                more = next(self._pieces, None)
                if more is None:
                    raise ProtocolError("a record ends after its batch")
                self.data, self.at = more, 0
            part = memoryview(self.data)[self.at : self.at + count]
            self.at += len(part)
            count -= len(part)
            yield part

    def skip(self, count: int) -> None:
        """Pass over bytes. Raises ProtocolError."""
        if count < 0:
            raise ProtocolError("a record is shorter than its parts")
        while count > (here := len(self.data) - self.at):
            more = next(self._pieces, None)
            if more is None:
                raise ProtocolError("a record ends after its batch")
            count -= here
            self.data, self.at = more, 0
        self.at += count

    def sized(self) -> tuple[bytes | None, int, int]:
        """Skip a key or value; its first bytes, its size, and the bytes that it and its length
        field take."""
        self.ensure(HEAD_BYTES)
        length, pos = read_varint32(self.data, self.at)
        if length < 0:
            passed, found = pos - self.at, None
        else:
            passed, found = pos - self.at + length, bytes(self.data[pos : pos + min(length, PREFIX_BYTES)])
        self.skip(passed)
        return found, length, passed


def heads(batch: RecordBatch) -> Iterator[Head]:
    """Yield the head of every record; ProtocolError when damaged."""
    plain = _Plain(batch)
    for _ in range(batch.record_count):
        head, begun = _head(plain)
        yield head
        plain.skip(head.size - begun)


def counted(batch: RecordBatch) -> Iterator[bytes | memoryview]:
    """The decompressed records, with offset deltas that count up from 0; ProtocolError when
    damaged."""
    plain = _Plain(batch)
    for number in range(batch.record_count):
        head, begun = _head(plain)
        front = bytearray(b"\0")
        write_varint(front, head.timestamp_delta)
        write_varint(front, number)
        size = bytearray()
        write_varint(size, len(front) + head.size - begun)
        yield bytes(size + front)
        yield from plain.take(head.size - begun)


def prefixes(batch: RecordBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield the first PREFIX_BYTES of each record's key and value, None for a null one. Lengths of
    keys and values are trusted, too; ProtocolError when damaged."""
    for key, _, value, _ in _fields(batch):
        yield key, value


def sizes(batch: RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the sizes of each record's key and value, negative for a null one; as `prefixes`."""
    for _, key, _, value in _fields(batch):
        yield key, value


def _fields(batch: RecordBatch) -> Iterator[tuple[bytes | None, int, bytes | None, int]]:
    """Prefix and size of each record's key, then of its value."""
    plain = _Plain(batch)
    try:
        for _ in range(batch.record_count):
            plain.ensure(HEAD_BYTES)
            data = plain.data
            size, start = read_varint32(data, plain.at)
            pos = start + 1
            for _ in range(2):  # timestamp and offset
                while data[pos] & 0x80:
                    pos += 1
                pos += 1
            plain.at = pos
            key, key_size, of_key = plain.sized()
            value, value_size, of_value = plain.sized()
            plain.skip(size - (pos - start) - of_key - of_value)
            yield key, key_size, value, value_size
    except IndexError as error:
        raise ProtocolError("a record ends after its batch") from error


def _head(plain: _Plain) -> tuple[Head, int]:
    """A record's head, read up to and including the offset delta; and how many bytes of the record
    that are."""
    plain.ensure(HEAD_BYTES)
    data = plain.data
    try:
        size, start = read_varint32(data, plain.at)
        timestamp_delta, pos = read_varint(data, start + 1)
        offset_delta, pos = read_varint32(data, pos)
        key, _ = read_varint32(data, pos)
    except IndexError as error:
        raise ProtocolError("a record ends after its batch") from error
    begun = pos - start
    if size < begun:
        raise ProtocolError("a record is shorter than its head")
    plain.at = pos
    return Head(size, timestamp_delta, offset_delta, key >= 0), begun
