"""The schema of a wire struct: what the codec compiles from. No I/O, no clock.

A struct has ONE shape over all versions of its message: the union of the fields. `Field.versions`
says which versions carry a field on the wire; elsewhere it has its default. Ranges are inclusive
(first, last) pairs.
"""

from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple

import msgspec

FIXED: Final[Mapping[str, tuple[str, int]]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}
"""Wire types of fixed width: (struct format, bytes). All are big-endian."""

ZERO_UUID: Final = bytes(16)
MAX_HEADER_TAGS: Final = 64
"""Tagged fields of a request's header, of which Kafka has none: millions would be skipped in one
go."""

Versions = tuple[int, int]
Records = bytes | memoryview
"""A field of record batches: on decode a slice of what was decoded, never a copy."""


class ProtocolError(ValueError):
    """The bytes are not a valid message of the requested version, or a value does not fit its
    field."""


class Field(NamedTuple):
    """One field. `item` is the class of a struct.

    `wire` is a key of FIXED, "string", "bytes" (copied on decode), "records" (stays a slice of the input),
    "struct", or one of these after "[]".
    """

    name: str
    wire: str
    versions: Versions
    default: object
    nullable: Versions | None = None
    tag: int | None = None
    tagged: Versions | None = None
    item: "type[Struct] | None" = None
    legacy: bool = False
    """The length prefix is the non-compact one even in flexible versions
    (RequestHeader.client_id)."""

    def present(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and self.nullable[0] <= version <= self.nullable[1]

    def is_tagged(self, version: int) -> bool:
        return self.tagged is not None and self.tagged[0] <= version <= self.tagged[1]


class Schema(NamedTuple):
    """Schema of a struct. `flexible` is the first version with compact lengths and tagged fields,
    or None."""

    versions: Versions
    flexible: int | None
    fields: tuple[Field, ...]

    def is_flexible(self, version: int) -> bool:
        return self.flexible is not None and version >= self.flexible


class Struct(msgspec.Struct):
    """Base of all generated structs.

    msgspec makes a class some ten times faster than the dataclass decorator, which took a twelfth
    of the broker's start for these hundreds of classes; reading and writing of messages is the
    codec's alone.
    """

    SCHEMA: ClassVar[Schema]
