"""Keys and values of the coordinators' topics: int16 record type + key, int16 version + value.

As Kafka's CoordinatorRecordSerde writes them. A null value is a tombstone. Kafka's transaction log
and offsets keys use the type as the version of the key too; all key schemas have only version 0.
"""

import struct
from collections.abc import Mapping
from typing import Final

from kbroker.protocol.codec import decode_exact, encode_into
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.schema import ProtocolError, Struct

RecordTypes = Mapping[int, tuple[type[Struct], type[Struct]]]

_PREFIX: Final = struct.Struct(">h")
_TYPE_OF_KEY: Final[Mapping[type[Struct], int]] = {
    key: type_
    for table in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
    for type_, (key, _) in table.items()
}


def encode_key(key: Struct) -> bytes:
    """A key with its record type."""
    out = bytearray(_PREFIX.pack(_TYPE_OF_KEY[type(key)]))
    encode_into(out, key, 0)
    return bytes(out)


def encode_value(value: Struct, version: int) -> bytes:
    """A value with its version."""
    out = bytearray(_PREFIX.pack(version))
    encode_into(out, value, version)
    return bytes(out)


def record_type(key: bytes | memoryview) -> int:
    """The type that an encoded key starts with."""
    if len(key) < _PREFIX.size:
        raise ProtocolError(f"a record key of {len(key)} bytes has no type")
    return int(_PREFIX.unpack_from(key)[0])


def decode_key(types: RecordTypes, key: bytes | memoryview) -> Struct:
    """Key of a record of the topic with these types; ProtocolError for an unknown one."""
    type_ = record_type(key)
    if type_ not in types:
        raise ProtocolError(f"there is no record type {type_}")
    return decode_exact(types[type_][0], 0, key, _PREFIX.size)


def decode_record(
    types: RecordTypes, key: bytes | memoryview, value: bytes | memoryview | None
) -> tuple[Struct, Struct | None]:
    """Key and value of a record of the topic with these types; ProtocolError for an unknown one."""
    return decode_key(types, key), decode_value(types, key, value)


def decode_value(
    types: RecordTypes, key: bytes | memoryview, value: bytes | memoryview | None
) -> Struct | None:
    """Value of a record with a key of one of these types; ProtocolError for an unknown version."""
    if value is None:
        return None
    if len(value) < _PREFIX.size:
        raise ProtocolError(f"a record value of {len(value)} bytes has no version")
    _, value_class = types[record_type(key)]
    return decode_exact(value_class, _PREFIX.unpack_from(value)[0], value, _PREFIX.size)
