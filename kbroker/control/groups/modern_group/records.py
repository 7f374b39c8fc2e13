"""Records of modern groups. All their values have version 0."""

from collections.abc import Iterable

from kbroker.control.coordinator.machine import Record
from kbroker.protocol.record_types import encode_key, encode_value
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import paced


def record(key: Struct, value: Struct) -> Record:
    return Record(encode_key(key), encode_value(value, 0))


def tombstone(key: Struct) -> Record:
    return Record(encode_key(key), None)


def tombstones(keys: Iterable[Struct]) -> list[Record]:
    """Tombstones of the keys, in their order, which matters to Apache Kafka's replay."""
    return [tombstone(key) for key in paced(keys)]
