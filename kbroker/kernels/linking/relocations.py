"""The relocations of x86-64, in code that may lie anywhere.

numba's code holds 64-bit addresses in its instructions (`movabs`), because LLVM's own linker may
put code and data far apart. Here both lie in one file, so each such instruction becomes one that
computes or loads the address relative to itself, and nothing remains that differs from process to
process. Numbers are those of the System V ABI, AMD64 supplement, 4.4.1.
"""

import struct
from enum import IntEnum


class CannotLink(ValueError):
    """Code that this linker does not know how to link; the text says what."""


class Kind(IntEnum):
    """Relocations that are known here."""

    NONE = 0
    ABSOLUTE_64 = 1
    PC_32 = 2
    PLT_32 = 4
    GOT_PC = 9
    PC_64 = 24
    GOT_PC_X = 41
    REX_GOT_PC_X = 42


OF_POINTER = frozenset({Kind.GOT_PC, Kind.GOT_PC_X, Kind.REX_GOT_PC_X})
"""Kinds that refer to a pointer to the symbol, not to the symbol."""
MOVE_BYTES = 10
"""Length of `movabs $address, %register`; its address starts at byte 2."""
_LEA, _LOAD = 0x8D, 0x8B
_NOP_3 = b"\x0f\x1f\x00"
_FAR_JUMP = b"\xff\x25"
JUMP_BYTES = 8
"""Room for a jump through a pointer."""


def moved(instruction: bytes, at: int, target: int, load: bool) -> bytes:
    """The instruction that replaces a `movabs` of an address: it sets the same register relative to
    its own place.

    at: the place. target: the address, or, with load, the place of the pointer that holds it.
    Raises CannotLink for another instruction.
    """
    if len(instruction) != MOVE_BYTES or instruction[0] not in (0x48, 0x49) or instruction[1] & 0xF8 != 0xB8:
        raise CannotLink(f"an address in the instruction {instruction.hex(' ')}")
    extended = instruction[0] & 1  # of register 8 to 15
    register = instruction[1] & 7
    operation = bytes([0x48 | extended << 2, _LOAD if load else _LEA, register << 3 | 5])
    return operation + relative(target - (at + 7)) + _NOP_3


def far_jump(at: int, pointer: int) -> bytes:
    """A jump through a pointer, of JUMP_BYTES."""
    return (_FAR_JUMP + relative(pointer - (at + 6))).ljust(JUMP_BYTES, b"\xcc")


def relative(distance: int) -> bytes:
    """A signed distance in 4 bytes. Raises CannotLink for one that is too far."""
    try:
        return struct.pack("<i", distance)
    except struct.error:
        raise CannotLink(f"a distance of {distance} bytes") from None
