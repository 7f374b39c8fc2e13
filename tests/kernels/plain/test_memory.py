"""Memory of plain kernels, as other processes see it."""

import ctypes
import mmap

from kbroker.kernels.plain.memory import load, store
from kbroker.kernels.plain.memory_map import MEMORY
from tests.forked_child import ForkedChild

STORES = 50_000


def test_another_process_sees_no_word_half_stored() -> None:
    """A store that clears the bytes first would show a word of 0."""
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    MEMORY.add(address, mmap.PAGESIZE)
    load_i64, store_i64 = load(64, True, False), store(64, False)
    store_i64(address, -1)

    def store_all() -> None:
        for _ in range(STORES):
            store_i64(address, -1)
        store_i64(address + 8, 1)

    try:
        with ForkedChild(store_all):
            found = set()
            while load_i64(address + 8) == 0:
                found.add(load_i64(address))
            assert found <= {-1}
    finally:
        MEMORY.remove(address)
