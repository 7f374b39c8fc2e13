"""System calls inside kernels. Pointers are plain 64-bit integers; results are -1 with ``errno()``.

Declared as external functions of libc, which is already loaded, so that kernels which use them are
kept in the on-disk cache (ctypes function pointers would not be).
"""

import platform

from kbroker.kernels.jit import PLAIN, external, inlined
from kbroker.kernels.memory import load_i32, load_i64
from kbroker.kernels.plain import libc as plain_libc
from kbroker.kernels.row import Values

_i64, _i32 = "int64", "int32"

read = external("read", _i64, _i32, _i64, _i64)
write = external("write", _i64, _i32, _i64, _i64)
pread = external("pread", _i64, _i32, _i64, _i64, _i64)
pwrite = external("pwrite", _i64, _i32, _i64, _i64, _i64)
lseek = external("lseek", _i64, _i32, _i64, _i32)
pwritev = external("pwritev", _i64, _i32, _i64, _i32, _i64)
fallocate = external("fallocate", _i32, _i32, _i32, _i64, _i64)
ftruncate = external("ftruncate", _i32, _i32, _i64)
recv = external("recv", _i64, _i32, _i64, _i64, _i32)
send = external("send", _i64, _i32, _i64, _i64, _i32)
epoll_wait = external("epoll_wait", _i32, _i32, _i64, _i32, _i32)
poll = external("poll", _i32, _i64, _i64, _i32)
epoll_ctl = external("epoll_ctl", _i32, _i32, _i32, _i32, _i64)
setsockopt = external("setsockopt", _i32, _i32, _i32, _i32, _i64, _i32)
sendfile = external("sendfile", _i64, _i32, _i32, _i64, _i64)
syscall = external("syscall", _i64, _i64, _i64, _i64, _i64, _i64)
clock_gettime = external("clock_gettime", _i32, _i32, _i64)
sched_yield = external("sched_yield", _i32)
getrusage = external("getrusage", _i32, _i32, _i64)
memmove = external("memmove", _i64, _i64, _i64, _i64)
memcmp = external("memcmp", _i32, _i64, _i64, _i64)
_errno_location = external("__errno_location", _i64)

FALLOC_FL_KEEP_SIZE = 1
MSG_DONTWAIT = 0x40
MSG_NOSIGNAL = 0x4000
MSG_MORE = 0x8000
IPPROTO_TCP = 6
TCP_CORK = 3
EAGAIN = 11
EINTR = 4
EIO = 5
SEEK_END = 2
CLOCK_REALTIME = 0
CLOCK_MONOTONIC = 1
CLOCK_THREAD_CPUTIME_ID = 3
CACHESTAT = 451  # number of the system call, the same on all architectures
RUSAGE_THREAD = 1
RUSAGE_BYTES = 144
RU_INBLOCK = 88
SECTOR = 512


@inlined
def clock_ns(clock: int, scratch: int) -> int:
    """Nanoseconds of a clock. scratch: address of a timespec."""
    clock_gettime(clock, scratch)
    return load_i64(scratch) * 1_000_000_000 + load_i64(scratch + 8)


PACKED = platform.machine() in ("x86_64", "AMD64")  # struct epoll_event is packed there alone


class Epoll(Values):
    """Events and operations of epoll; STRIDE: bytes of its event, DATA: where the caller's number
    lies in it."""

    IN = 1
    OUT = 4
    ERR = 8
    HUP = 16
    RDHUP = 0x2000
    ET = 1 << 31
    ADD = 1
    MODIFY = 3
    READING = IN | RDHUP
    STRIDE = 12 if PACKED else 16
    DATA = 4 if PACKED else 8


class Poll(Values):
    """Events of poll, and how far the returned ones are shifted in the 32 bits of both."""

    IN = 1
    OUT = 4
    RETURNED = 16


if PLAIN:
    errno = plain_libc.errno
else:

    @inlined
    def errno() -> int:
        """The calling thread's errno; read it right after the failed call."""
        return load_i32(_errno_location())
