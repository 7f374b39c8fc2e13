"""The answer to a Fetch, v4 to v18: small headers, with file ranges between them that are not read here."""

import struct
from collections.abc import Iterable

from kbroker.net.connection import FilePart, Part
from kbroker.net.fetch.fetch_session import FIRST_TOPIC_ID_VERSION, Wanted
from kbroker.net.fetch.partition_reader import Reading
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import RequestHeader
from kbroker.protocol.slices import paced

FLEXIBLE = 12
SESSIONS = 7  # first versions of fields
LOG_START = 5
PREFERRED_REPLICA = 11
CURRENT_LEADER = 16

Selected = list[tuple[Wanted, Reading]]
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_PARTITION = struct.Struct(">ihqq")


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class FetchAnswer:
    """Builds the parts of one answer. The frame's size is known at the end, so the first part is kept open."""

    def __init__(self, header: RequestHeader, node_id: int) -> None:
        self._version = header.api_version
        self._compact = header.api_version >= FLEXIBLE
        self._node_id = node_id
        self._out = bytearray(4)
        self._out += struct.pack(">i", header.correlation_id) + (b"\0" if self._compact else b"")
        self._parts: list[Part] = []
        self._size = 0

    def build(
        self, selected: Selected, error: int = 0, session_id: int = 0, throttle_ms: int = 0
    ) -> list[Part]:
        """The framed answer. Partitions of one topic that follow each other share an entry."""
        self._out += struct.pack(">i", throttle_ms)
        if self._version >= SESSIONS:
            self._out += struct.pack(">hi", error, session_id)
        topics = list(_by_topic(selected, self._version))
        self._count(len(topics))
        for partitions in topics:
            self._topic(partitions)
        if self._compact:
            self._out += b"\0"
        self._flush()
        first = self._parts[0]
        assert isinstance(first, bytearray)
        struct.pack_into(">i", first, 0, self._size - 4)
        return self._parts

    def _count(self, number: int) -> None:
        self._out += uvarint(number + 1) if self._compact else struct.pack(">i", number)

    def _topic(self, partitions: Selected) -> None:
        wanted = partitions[0][0]
        if self._version >= FIRST_TOPIC_ID_VERSION:
            self._out += wanted.topic_id
        else:
            name = wanted.topic.encode()
            self._out += (uvarint(len(name) + 1) if self._compact else struct.pack(">h", len(name))) + name
        self._count(len(partitions))
        for each, reading in paced(partitions):
            self._partition(each.partition, reading)
        if self._compact:
            self._out += b"\0"

    def _partition(self, index: int, reading: Reading) -> None:
        error = reading.error
        if error is ErrorCode.KAFKA_STORAGE_ERROR and self._version <= LOG_START:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # what clients of that age retry
        self._out += _PARTITION.pack(index, error, reading.high_watermark, reading.last_stable)
        if self._version >= LOG_START:
            self._out += struct.pack(">q", reading.log_start)
        self._aborted(reading)
        if self._version >= PREFERRED_REPLICA:
            self._out += struct.pack(">i", -1)
        length = reading.length
        self._out += uvarint(length + 1) if self._compact else struct.pack(">i", length)
        if reading.range is not None:
            self._records(reading)
        if self._compact:
            self._tags(reading)

    def _aborted(self, reading: Reading) -> None:
        if reading.aborted is None:
            self._out += b"\0" if self._compact else b"\xff\xff\xff\xff"
            return
        self._count(len(reading.aborted))
        for entry in reading.aborted:
            self._out += struct.pack(">qq", entry.producer_id, entry.first_offset)
            if self._compact:
                self._out += b"\0"

    def _records(self, reading: Reading) -> None:
        found = reading.range
        assert found is not None
        self._flush()
        self._parts.append(FilePart(found.file, found.position, found.length))
        self._size += found.length

    def _tags(self, reading: Reading) -> None:
        tags = []
        if reading.diverging is not None:
            tags.append((0, struct.pack(">iqx", *reading.diverging)))
        if self._version >= CURRENT_LEADER and reading.error in _LEADER_ERRORS:
            tags.append((1, struct.pack(">iix", self._node_id, reading.leader_epoch)))
        self._out += uvarint(len(tags))
        for tag, value in tags:
            self._out += uvarint(tag) + uvarint(len(value)) + value

    def _flush(self) -> None:
        if self._out:
            self._parts.append(self._out)
            self._size += len(self._out)
            self._out = bytearray()


def _by_topic(selected: Selected, version: int) -> Iterable[Selected]:
    group: Selected = []
    last: str | bytes | None = None
    for each in paced(selected):
        name = each[0].topic_id if version >= FIRST_TOPIC_ID_VERSION else each[0].topic
        if group and name != last:
            yield group
            group = []
        group.append(each)
        last = name
    if group:
        yield group
