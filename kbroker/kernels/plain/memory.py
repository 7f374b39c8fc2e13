"""Loads, stores and atomics of plain kernels: the twins of `kbroker.kernels.memory`."""

import ctypes
import fcntl
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from kbroker.kernels.plain import ACTIVE
from kbroker.kernels.plain.memory_map import MEMORY, MemoryFault, place

WORD = (1 << 64) - 1
SIGN = 1 << 63
FORMATS = {8: "b", 16: "h", 32: "i", 64: "q"}


def wrapped(value: int) -> int:
    """An integer as the int64 that machine arithmetic leaves of it."""
    return ((int(value) + SIGN) & WORD) - SIGN


def unsigned(value: int) -> np.uint64:
    """The 64 bits as a number without a sign."""
    return np.uint64(int(value) & WORD)


def load(bits: int, signed: bool, swap: bool) -> Callable[[int], int]:
    """A function that loads one number from an address."""
    kind = FORMATS[bits] if signed or bits == 64 else FORMATS[bits].upper()
    unpack = struct.Struct((">" if swap else "<") + kind).unpack_from
    size = bits // 8

    def load_number(address: int) -> int:
        block = MEMORY.last
        if not block.start <= address <= block.end - size:
            block = MEMORY.find(address, size, "read")
        found: int = unpack(block.view, address - block.start)[0]
        return found

    return load_number


def store_word(address: int, value: int) -> None:
    """Stores the low 64 bits of a number in one piece.

    struct fills the bytes with zeros before it packs a number, and another process would see them:
    the head of a ring would be 0 for a moment."""
    block = MEMORY.last
    if not block.start <= address <= block.end - 8:
        block = MEMORY.find(address, 8, "write")
    if block.rows:
        MEMORY.check_writer(block, address, 8)
    if block.view.readonly:
        raise MemoryFault(f"{place()} writes 8 bytes into memory that is read-only")
    ctypes.c_int64.from_address(int(address)).value = int(value)


def store(bits: int, swap: bool) -> Callable[[int, int], None]:
    """A function that stores the low bits of a number at an address."""
    if bits == 64 and not swap:
        return store_word
    pack = struct.Struct((">" if swap else "<") + FORMATS[bits].upper()).pack_into
    size = bits // 8
    mask = (1 << bits) - 1

    def store_number(address: int, value: int) -> None:
        block = MEMORY.last
        if not block.start <= address <= block.end - size:
            block = MEMORY.find(address, size, "write")
        if block.rows:
            MEMORY.check_writer(block, address, size)
        try:
            pack(block.view, address - block.start, int(value) & mask)
        except TypeError:
            raise MemoryFault(f"{place()} writes {size} bytes into memory that is read-only") from None

    return store_number


load_word = load(64, True, False)


def get(row: int, word: int) -> int:
    """Word of a row."""
    return load_word(row + 8 * word)


def put(row: int, word: int, value: int) -> None:
    """Set a word of a row."""
    store_word(row + 8 * word, value)


def aligned(address: int) -> int:
    """An address that an atomic may have. Raises MemoryFault."""
    if address & 7:
        raise MemoryFault(f"{place()} needs an address that 8 divides, not {address:#x}")
    return address


def load_acquire(address: int) -> int:
    """An aligned load is one instruction."""
    return load_word(aligned(address))


def store_release(address: int, value: int) -> None:
    """As `load_acquire`."""
    store_word(aligned(address), value)


class AtomicSection:
    """Held while a word is read, changed and written: by one thread of all processes that were
    forked from this one.

    A lock on a file ends with a process that dies in it.
    """

    def __init__(self) -> None:
        self._threads = threading.RLock()
        import tempfile  # compiled kernels do without it and all that it imports

        self._file, name = tempfile.mkstemp(prefix="kbroker-atomics-")
        Path(name).unlink()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._threads = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the section, and leave it."""
        with self._threads:
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)


ATOMIC = AtomicSection() if ACTIVE else None


def read_modify_write(operation: str) -> Callable[[int, int], int]:
    """A function that changes a word and returns its old value."""
    change: Callable[[int, int], int] = {
        "add": lambda old, value: old + value,
        "or": lambda old, value: old | value,
        "xchg": lambda _, value: value,
    }[operation]

    def modify(address: int, value: int) -> int:
        assert ATOMIC is not None
        with ATOMIC.held():
            old = load_word(aligned(address))
            store_word(address, change(old, int(value)))
        return old

    return modify


def fence() -> None:
    """A memory fence: to take a lock orders memory."""
    assert ATOMIC is not None
    with ATOMIC.held():
        pass


def copy(destination: int, source: int, length: int) -> None:
    """Copy bytes between addresses that do not overlap. Raises MemoryFault when they do."""
    if length == 0:
        return
    if length < 0:
        raise MemoryFault(f"{place()} copies {length} bytes")
    MEMORY.check(source, length, "read")
    MEMORY.check(destination, length, "write")
    if source < destination + length and destination < source + length:
        raise MemoryFault(f"{place()} copies {length} bytes between addresses that overlap")
    ctypes.memmove(int(destination), int(source), int(length))
