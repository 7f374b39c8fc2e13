"""Memory of plain kernels, as other processes see it."""

import ctypes
import mmap
import os
import signal

from kbroker.kernels.plain.memory import load, store
from kbroker.kernels.plain.memory_map import MEMORY

STORES = 50_000


def test_another_process_sees_no_word_half_stored() -> None:
    """A store that clears the bytes first would show a word of 0."""
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    MEMORY.add(address, mmap.PAGESIZE)
    load_i64, store_i64 = load(64, True, False), store(64, False)
    store_i64(address, -1)
    pid = os.fork()
    if pid == 0:
        for _ in range(STORES):
            store_i64(address, -1)
        store_i64(address + 8, 1)
        os._exit(0)
    try:
        found = set()
        while load_i64(address + 8) == 0:
            found.add(load_i64(address))
        assert found <= {-1}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        MEMORY.remove(address)
