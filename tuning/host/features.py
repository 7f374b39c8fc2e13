"""Kernel features that kbroker uses. They are tried where that is harmless, otherwise derived from
the version.
"""

import ctypes
import errno
import os
import platform
import re
import tempfile
from dataclasses import dataclass

from tuning.host.roots import Roots

CACHESTAT = 451  # system call number, the same on all architectures
SLICES = (6, 12)  # EEVDF takes a slice from sched_setattr


@dataclass(frozen=True, slots=True)
class Features:
    """release: the first two numbers of the kernel's version. cachestat and nowait_reads: whether
    the calls work here (a container's filter may refuse them). io_uring: the sysctl's word; None
    before it existed."""

    release: tuple[int, int] = (0, 0)
    cachestat: bool | None = None
    nowait_reads: bool | None = None
    io_uring: str | None = None

    @property
    def slices(self) -> bool:
        return self.release >= SLICES


def release_of(text: str) -> tuple[int, int]:
    """(6, 18) of `6.18.44-vendor`."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def features_of(roots: Roots, folder: str | None = None) -> Features:
    """folder: where to try reads that must not wait, best on a log dir's file system."""
    words = {"0": "allowed", "1": "only with CAP_SYS_ADMIN", "2": "disabled"}
    uring = roots.sysctl("kernel.io_uring_disabled")
    return Features(
        release_of(platform.release()),
        _has_cachestat(),
        _has_nowait_reads(folder),
        words.get(uring) if uring is not None else None,
    )


def _has_cachestat() -> bool:
    """A bad descriptor is refused as such by a kernel that knows the call."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(CACHESTAT, -1, None, None, 0)
    return ctypes.get_errno() in (errno.EBADF, errno.EFAULT)


def _has_nowait_reads(folder: str | None) -> bool | None:
    """Whether preadv2 with RWF_NOWAIT works on the folder's file system; None where nothing can be
    written or read."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
            file.flush()
            return _reads_without_waiting(file.fileno())
    except OSError:
        return None if folder is None else _tried_on_a_file_of(folder)


def _tried_on_a_file_of(folder: str) -> bool | None:
    """The broker's http process may write no files; one that is there already shows the same."""
    try:
        with os.scandir(folder) as found:
            names = sorted(entry.path for entry in found if entry.is_file(follow_symlinks=False))
    except OSError:
        return None
    for name in names:
        try:
            with open(name, "rb") as file:
                return _reads_without_waiting(file.fileno())
        except OSError:
            continue
    return None


def _reads_without_waiting(fd: int) -> bool:
    """Raises OSError when that says nothing about the call."""
    try:
        os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return False
        raise
    return True
