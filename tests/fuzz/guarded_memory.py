"""Memory between two unreadable pages: a read outside of it ends the process with SIGSEGV."""

import ctypes
import mmap

PAGE = mmap.PAGESIZE
PROT_NONE = 0


class GuardedMemory:
    """Room for ``size`` bytes, which lie directly before the guard behind or directly after the one
    in front."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // PAGE) * PAGE
        self._map = mmap.mmap(-1, self.size + 2 * PAGE)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (self._start, self._start + PAGE + self.size):
            if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(PAGE), PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")

    def at_the_end(self, data: bytes) -> int:
        """Address of a copy that ends where the guard begins."""
        return self._put(data, self.size - len(data))

    def at_the_start(self, data: bytes) -> int:
        """Address of a copy that begins where the guard ends."""
        return self._put(data, 0)

    def _put(self, data: bytes, offset: int) -> int:
        if len(data) > self.size:
            raise ValueError(f"{len(data)} bytes do not fit into {self.size}")
        address = self._start + PAGE + offset
        ctypes.memmove(address, data, len(data))
        return address
