"""The page cache: how many pages of a file are in it (cachestat(2), Linux 6.5 and newer), and the
bytes that a thread had read from disk because they were not."""

import ctypes
import os
import resource

from kbroker.kernels.libc import CACHESTAT, SECTOR

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


def thread_disk_bytes() -> int:
    """Bytes that the calling thread has read from disk, as in /proc/PID/io, which includes the
    kernel's own read-ahead."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_inblock * SECTOR
