"""The record of a committed offset, written and read by hand: commits are most of a coordinator's
work.

The bytes are those of the generated classes (OffsetCommitKey, OffsetCommitValue v4), which the
tests hold them to; other versions are left to them.
"""

import struct
from typing import Final, NamedTuple

from kbroker.control.coordinator.machine import Record
from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.compile_decode import read_uvarint
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS
from kbroker.protocol.coordinator_records.offset_commit import OffsetCommitValue
from kbroker.protocol.record_types import decode_record, encode_value
from kbroker.protocol.schema import ZERO_UUID, ProtocolError

VALUE_VERSION_WITH_EXPIRY: Final = 1
"""Version of the value for commits of OffsetCommit v2-4 with their own retention."""

KEY_TYPE: Final = b"\0\1"
_V4: Final = b"\0\4"
_ANY_KEY: Final = b"\0\1\0\0\0\0\0\0\0\0"
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_START: Final = struct.Struct(">qi")
_METADATA: Final = 2 + _START.size
"""The position at which version 4 has the length of the metadata and one."""
_TIMESTAMP: Final = struct.Struct(">q")
_NO_TAGS: Final = b"\0"
_TOPIC_ID_TAG: Final = b"\1\0\x10"  # one tag, number 0, 16 bytes


class CommittedOffset(NamedTuple):
    """One committed offset. expire_timestamp: -1 follows offsets.retention.minutes."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID

    def is_of_another(self, topic_id: bytes | None) -> bool:
        """Whether it belongs to an earlier topic of the same name, whose offset is left while a
        transaction has one of the next topic. topic_id: None or ZERO_UUID if it is not known."""
        return topic_id not in (None, ZERO_UUID, self.topic_id) and self.topic_id != ZERO_UUID


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a partition's offset. Raises ProtocolError for texts that are too long."""
    group, name = group_id.encode(), topic.encode()
    if len(group) > MAX_STRING_BYTES or len(name) > MAX_STRING_BYTES:
        raise ProtocolError(f"group or topic is longer than {MAX_STRING_BYTES} bytes")
    length = _LENGTH.pack
    return b"".join(
        (KEY_TYPE, length(len(group)), group, length(len(name)), name, _PARTITION.pack(partition))
    )


def decode_offset_key(key: bytes) -> tuple[str, str, int]:
    """(group, topic, partition) of a key of record type 0 or 1. Raises ProtocolError."""
    parsed, _ = decode_record(CONSUMER_OFFSETS, key, None)
    group: str = parsed.group  # type: ignore[attr-defined]
    return group, parsed.topic, parsed.partition  # type: ignore[attr-defined]


def encode_offset(offset: CommittedOffset) -> bytes:
    """The value of an offset."""
    if offset.expire_timestamp != -1:
        value = OffsetCommitValue(
            offset.offset,
            offset.leader_epoch,
            offset.metadata,
            offset.commit_timestamp,
            offset.expire_timestamp,
        )
        return encode_value(value, VALUE_VERSION_WITH_EXPIRY)
    metadata = offset.metadata.encode()
    tags = _NO_TAGS if offset.topic_id == ZERO_UUID else _TOPIC_ID_TAG + offset.topic_id
    return b"".join(
        (
            _V4,
            _START.pack(offset.offset, offset.leader_epoch),
            _uvarint(len(metadata) + 1),
            metadata,
            _TIMESTAMP.pack(offset.commit_timestamp),
            tags,
        )
    )


def decode_offset(value: bytes) -> CommittedOffset:
    """An offset out of its record's value, of any version. Raises ProtocolError."""
    if value[:2] == _V4:
        try:
            return _decode_v4(value)
        except (struct.error, IndexError) as error:
            raise ProtocolError(f"offset of {len(value)} bytes: {error}") from error
    _, found = decode_record(CONSUMER_OFFSETS, _ANY_KEY, value)
    assert isinstance(found, OffsetCommitValue)
    return CommittedOffset(
        found.offset,
        found.leader_epoch,
        found.metadata,
        found.commit_timestamp,
        found.expire_timestamp,
        found.topic_id,
    )


def check_offset(value: bytes) -> None:
    """Check that `decode_offset` can read a value, nearly always without decoding it. Raises
    ProtocolError."""
    if len(value) > _METADATA and value[:2] == _V4 and 0 < value[_METADATA] < 0x80:
        tags = _METADATA + value[_METADATA] + _TIMESTAMP.size
        if value[tags:] == _NO_TAGS:
            return
    decode_offset(value)


def _decode_v4(value: bytes) -> CommittedOffset:
    offset, leader_epoch = _START.unpack_from(value, 2)
    size, position = read_uvarint(value, 2 + _START.size)
    if not size:
        raise ProtocolError("an offset's metadata is null")
    end = position + size - 1
    metadata = value[position:end].decode(errors="replace")
    (timestamp,) = _TIMESTAMP.unpack_from(value, end)
    tags = value[end + _TIMESTAMP.size :]
    topic_id = ZERO_UUID
    if tags.startswith(_TOPIC_ID_TAG) and len(tags) == len(_TOPIC_ID_TAG) + 16:
        topic_id = tags[len(_TOPIC_ID_TAG) :]
    elif tags != _NO_TAGS:
        _, found = decode_record(CONSUMER_OFFSETS, _ANY_KEY, value)  # tags of a later version
        assert isinstance(found, OffsetCommitValue)
        topic_id = found.topic_id
    return CommittedOffset(offset, leader_epoch, metadata, timestamp, -1, topic_id)


def _uvarint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def offset_record(group_id: str, topic: str, partition: int, offset: CommittedOffset) -> Record:
    """The record of a committed offset."""
    return Record(encode_offset_key(group_id, topic, partition), encode_offset(offset))


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(encode_offset_key(group_id, topic, partition), None)
