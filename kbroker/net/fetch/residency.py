"""Checks whether bytes of a file are in the page cache: cachestat(2), else preadv2 with RWF_NOWAIT,
else assumed.

Runs in: network. A fetch of cold bytes would block the event loop, so an IO worker reads them ahead
first.
"""

import mmap
import os
from collections.abc import Callable, Iterable

from kbroker.log import files
from kbroker.log.cachestat import page_counts

PAGE = mmap.PAGESIZE
Probe = Callable[[int, int, int], bool]


def by_cachestat(fd: int, position: int, length: int) -> bool:
    """Whether all pages of the range are cached. OSError where the kernel has no cachestat or
    refuses it."""
    first, last = position // PAGE, (position + length - 1) // PAGE
    return page_counts(fd, position, length)[0] >= last - first + 1


def by_nowait(fd: int, position: int, length: int) -> bool:
    """Whether the first and the last byte can be read without blocking: a sample, for older
    kernels."""
    byte = bytearray(1)
    try:
        for at in (position, position + length - 1):
            os.preadv(fd, [byte], at, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    return True


def always(_fd: int, _position: int, _length: int) -> bool:
    """The probe on systems that cannot report residency: all bytes count as cached."""
    return True


def choose(log_dirs: Iterable[str]) -> Probe:
    """The best probe that works in the first log dir that answers. It is tried on a file that every
    log dir has: a disk may be full when a network process starts.
    """
    for folder in log_dirs:
        try:
            fd = os.open(os.path.join(folder, files.META_PROPERTIES), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # this log dir has failed
        try:
            for probe in (by_cachestat, by_nowait):
                try:
                    probe(fd, 0, 1)
                except (
                    OSError
                ):  # the kernel has no such call, the file system no such flag, or a sandbox refuses it
                    continue
                return probe
        finally:
            os.close(fd)
    return always
