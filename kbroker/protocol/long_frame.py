"""Long answers in parts: no step of building or sending one touches all of its bytes."""

import struct
from typing import Any, Final

MAX_SLICED_BYTES: Final = 128 << 20
"""Maximum of the answer to a request that is served in slices."""
PART_BYTES: Final = 1 << 17
"""Bytes of an encoded message that are kept in one piece."""
_SIZE: Final = struct.Struct(">i")


class TooLarge(Exception):
    """The message has more than MAX_SLICED_BYTES."""


class LongFrame:
    """A framed message: its bytes are those of the parts, in their order. size: of all of them."""

    __slots__ = ("parts", "size")

    def __init__(self, parts: list[Any], size: int) -> None:
        self.parts = parts
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


Frame = bytes | LongFrame


class Spilled(bytearray):
    """A framed message that is being encoded. What was appended moves to `parts` when it is long:
    a bytearray of a hundred megabytes is copied as a whole each time it grows out of its place."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []
        self.spilled = 0

    def spill(self) -> None:
        """Begin a new part. Raises TooLarge."""
        if self:
            self.parts.append(bytearray(self))
            self.spilled += len(self)
            self.clear()
        if self.spilled > MAX_SLICED_BYTES:
            raise TooLarge

    def framed(self, others: int = 0) -> Frame:
        """The message, with its size at its start. others: bytes that the parts do not count."""
        if not self.parts:
            _SIZE.pack_into(self, 0, len(self) + others - _SIZE.size)
            return bytes(self)
        self.spill()
        _SIZE.pack_into(self.parts[0], 0, self.spilled + others - _SIZE.size)
        return LongFrame(self.parts, self.spilled + others)


def spill(out: bytearray) -> None:
    """A message in the making has grown beyond PART_BYTES. Raises TooLarge."""
    if isinstance(out, Spilled):
        out.spill()
    elif len(out) > MAX_SLICED_BYTES:
        raise TooLarge
