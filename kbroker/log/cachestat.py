"""cachestat(2): how many pages of a file are in the page cache. Linux 6.5 and newer."""

import ctypes
import os

from kbroker.kernels.libc import CACHESTAT

STATES = ("cached", "dirty", "writeback", "evicted", "recently_evicted")


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Stat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in STATES)


_libc = ctypes.CDLL(None, use_errno=True)


def page_counts(fd: int, position: int = 0, length: int = 0) -> tuple[int, ...]:
    """Pages of a range by state, in the order of STATES. length: 0 for all up to the file's end.
    Raises OSError if the kernel lacks cachestat or refuses it."""
    requested, found = _Range(position, length), _Stat()
    if _libc.syscall(CACHESTAT, fd, ctypes.byref(requested), ctypes.byref(found), 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return tuple(int(getattr(found, name)) for name in STATES)
