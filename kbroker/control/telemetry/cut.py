"""The part of a large MetricsData that is read, cut out of its bytes in slices: protobuf decodes a
payload in one call, and one of a mebibyte may consist of half a million messages.

Only the fields of a `Kind` are kept, each as often as its limit says.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import yield_slice

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
FIXED: Final = {FIXED64: 8, FIXED32: 4}
WHOLE_BYTES: Final = 256
"""A message of at most this size is kept as it is."""
MAX_FIELDS: Final = 50_000
"""Fields that are read; the others are left out. A thousand points have some 20,000."""
STEPS: Final = 64
"""Fields between two checks of the clock."""


class Field(NamedTuple):
    """limit: how often it is kept in its message, or in the payload, if other fields share it.
    kind: of its messages, None for a plain value."""

    limit: int
    kind: "Kind | None" = None
    shared: str = ""


Kind = Mapping[int, Field]
"""The fields of a message that are kept, by number."""


class Cut:
    """Cuts one payload. shared: limits by name that fields share."""

    def __init__(self, shared: Iterable[tuple[str, int]]) -> None:
        self._shared = dict(shared)
        self._left = MAX_FIELDS

    def of(self, message: memoryview, kind: Kind) -> bytearray:
        """The bytes of a message that are kept. Raises INVALID_RECORD for damage."""
        out = bytearray()
        limits = {number: field.limit for number, field in kind.items()}
        position, end = 0, len(message)
        while position < end and self._left:
            self._left -= 1
            if not self._left % STEPS:
                yield_slice()
            start = position
            tag, position = _varint(message, position)
            content, position = _field_end(message, position, tag & 7)
            number = tag >> 3
            field = kind.get(number)
            if field is None or not self._takes(field, number, limits):
                continue
            if field.kind is None or tag & 7 != BYTES or position - content <= WHOLE_BYTES:
                out += message[start:position]
            else:
                kept = self.of(message[content:position], field.kind)
                out += _bytes_of(tag) + _bytes_of(len(kept)) + kept
        return out

    def _takes(self, field: Field, number: int, limits: dict[int, int]) -> bool:
        if field.shared:
            self._shared[field.shared] -= 1
            return self._shared[field.shared] >= 0
        limits[number] -= 1
        return limits[number] >= 0


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """A number and the position after it."""
    found = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, position
        shift += 7
    raise KafkaError(ErrorCode.INVALID_RECORD, "a number is not complete")


def _field_end(message: memoryview, position: int, wire_type: int) -> tuple[int, int]:
    """The start and the end of a field's content."""
    if wire_type == VARINT:
        return position, _varint(message, position)[1]
    if wire_type == BYTES:
        size, position = _varint(message, position)
    else:
        size = FIXED.get(wire_type, len(message) + 1)
    if size > len(message) - position:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a field is not complete")
    return position, position + size


def _bytes_of(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
