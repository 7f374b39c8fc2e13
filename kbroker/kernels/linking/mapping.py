"""Memory that a process maps, as the C library does it: Python's own `mmap` keeps the file open,
and cannot change the rights of pages."""

import ctypes
import mmap
import os
from typing import Any, Self

READ, WRITE, RUN = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """Pages at an address, for as long as the process lives or until `close`."""

    def __init__(self, size: int, rights: int, file: int = -1) -> None:
        """Private pages of a file, or of none. Raises OSError."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        flags = mmap.MAP_PRIVATE | (mmap.MAP_ANONYMOUS if file < 0 else 0)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
        )  # fmt: skip
        self._libc.mprotect.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
        self._libc.munmap.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
        found = self._libc.mmap(None, size, rights, flags, file, 0)
        if found is None or found == _FAILED:
            self._fail("mmap")
        self.start: int = found
        self.size = size

    @classmethod
    def of_file(cls, file: int, rights: int) -> Self:
        """A whole file. Raises OSError."""
        return cls(os.fstat(file).st_size, rights, file)

    def view(self) -> memoryview:
        """All bytes; valid until `close`."""
        array: Any = (ctypes.c_ubyte * self.size).from_address(self.start)
        return memoryview(array).cast("B")

    def protect(self, start: int, size: int, rights: int) -> None:
        """Set the rights of whole pages at an offset. Raises OSError."""
        if size and self._libc.mprotect(self.start + start, size, rights) != 0:
            self._fail("mprotect")

    def close(self) -> None:
        """Unmap it."""
        self._libc.munmap(self.start, self.size)

    def _fail(self, what: str) -> None:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
