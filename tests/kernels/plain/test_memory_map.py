"""Accesses beyond known memory are refused, with a message that says where."""

import ctypes
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pytest

from kbroker.kernels.plain.memory import load, store
from kbroker.kernels.plain.memory_map import BORROWED, MEMORY, MemoryFault, MemoryMap

load_word, load_short, store_word = load(64, True, False), load(16, True, True), store(64, False)


@pytest.fixture
def block() -> Iterator[int]:
    """Address of 16 bytes that alone are known."""
    memory = (ctypes.c_ubyte * 16)(*range(16))
    address = ctypes.addressof(memory)
    MEMORY.add(address, 16)
    yield address
    MEMORY.remove(address)


def test_numbers_have_their_width_sign_and_byte_order(block: int) -> None:
    assert load_word(block) == 0x0706050403020100
    assert load_short(block + 14) == 0x0E0F
    store_word(block + 8, -2)
    assert load_word(block + 8) == -2
    assert load(32, False, True)(block + 8) == 0xFEFFFFFF
    store(16, True)(block, 0x12345)
    assert load_short(block) == 0x2345


def test_kernels_give_numpy_integers(block: int) -> None:
    number = cast("Callable[[int], int]", np.int64)
    store_word(number(block + 8), number(-2))
    store(16, True)(number(block), number(7))
    assert (load_word(number(block + 8)), load_short(number(block))) == (-2, 7)


@pytest.mark.parametrize("beyond", [9, 15, 16, 24, -1, -8])
def test_an_access_beyond_a_block_is_refused(block: int, beyond: int) -> None:
    with pytest.raises(MemoryFault, match=r"test_an_access_beyond.* would read 8 bytes at 0x"):
        load_word(block + beyond)
    with pytest.raises(MemoryFault, match="would write 8 bytes"):
        store_word(block + beyond, 1)


def test_freed_memory_is_refused(block: int) -> None:
    assert load_word(block) >= 0
    MEMORY.remove(block)
    with pytest.raises(MemoryFault):
        load_word(block)


def test_memory_of_bytes_cannot_be_written() -> None:
    memory = MemoryMap()
    buffer = (ctypes.c_ubyte * 8)()
    address = ctypes.addressof(buffer)
    memory.borrow(address, 8, writable=False)
    memory.check(address, 8, "read")
    with pytest.raises(MemoryFault, match="read-only"):
        memory.check(address, 8, "write")


def test_new_memory_replaces_what_was_known_of_its_addresses() -> None:
    memory = MemoryMap()
    buffer = (ctypes.c_ubyte * 64)()
    address = ctypes.addressof(buffer)
    memory.borrow(address + 8, 16, writable=True)
    memory.borrow(address + 40, 8, writable=True)
    memory.add(address, 32)
    assert memory.find(address + 30, 2, "read").start == address
    assert memory.find(address + 40, 8, "read").start == address + 40
    memory.remove(address)
    assert memory.block_at(address + 8) is None


def test_a_part_of_known_memory_is_not_borrowed_again() -> None:
    memory = MemoryMap()
    buffer = (ctypes.c_ubyte * 64)()
    address = ctypes.addressof(buffer)
    memory.add(address, 64)
    memory.borrow(address + 8, 8, writable=True)
    assert memory.find(address + 8, 56, "read").start == address


def test_borrowed_memory_is_forgotten_oldest_first() -> None:
    memory = MemoryMap()
    buffer = (ctypes.c_ubyte * (8 * BORROWED + 8))()
    address = ctypes.addressof(buffer)
    for number in range(BORROWED + 1):
        memory.borrow(address + 8 * number, 8, writable=True)
    assert memory.block_at(address) is None
    assert memory.block_at(address + 8 * BORROWED) is not None
