"""A file of which the page cache holds only the end."""

import os
from mmap import PAGESIZE
from pathlib import Path


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
