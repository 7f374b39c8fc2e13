"""Files of which the page cache holds nothing, or only the end."""

import ctypes
import os
from collections.abc import Iterable
from mmap import PAGESIZE, mmap
from pathlib import Path

from kbroker.http.disks import disks_of


def evict(files: Iterable[Path]) -> bool:
    """Drops the files from the page cache. Whether a disk has them now: tmpfs has none, and some
    hosts keep the pages."""
    found = list(files)
    for file in found:
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    kept = sum(resident_pages(file) * PAGESIZE for file in found if file.stat().st_size)
    on_disk = bool(disks_of([str(file) for file in found]))
    return on_disk and kept < sum(file.stat().st_size for file in found) / 2


def keep_cached_from(file: Path, page: int) -> None:
    """Evicts a file, then reads it from a page on. The kernel drops whole folios, of many pages, so
    it cannot be asked to drop just the pages before."""
    fd = os.open(file, os.O_RDWR)
    try:
        os.fsync(fd)  # only clean pages are dropped
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        os.pread(fd, os.fstat(fd).st_size, page * PAGESIZE)
    finally:
        os.close(fd)


def resident_pages(file: Path) -> int:
    """Pages of a file in memory, by mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    with file.open("r+b") as opened, mmap(opened.fileno(), 0) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        pages = (ctypes.c_ubyte * -(-len(mapped) // PAGESIZE))()  # the last page may be a part
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(mapped)), pages)
        del start
        assert failed == 0, os.strerror(ctypes.get_errno())
        return sum(page & 1 for page in pages)
