"""System calls inside kernels. Pointers are plain 64-bit integers; results are -1 with ``errno()``.

Declared as external functions of libc, which is already loaded, so that kernels which use them are
kept in the on-disk cache (ctypes function pointers would not be).
"""
# mypy: disable-error-code="no-untyped-call"

from numba import types

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i32

_i64, _i32 = types.int64, types.int32


def _libc(name: str, result: types.Type, *arguments: types.Type) -> types.ExternalFunction:
    return types.ExternalFunction(name, result(*arguments))


read = _libc("read", _i64, _i32, _i64, _i64)
write = _libc("write", _i64, _i32, _i64, _i64)
pread = _libc("pread", _i64, _i32, _i64, _i64, _i64)
pwrite = _libc("pwrite", _i64, _i32, _i64, _i64, _i64)
lseek = _libc("lseek", _i64, _i32, _i64, _i32)
pwritev = _libc("pwritev", _i64, _i32, _i64, _i32, _i64)
recv = _libc("recv", _i64, _i32, _i64, _i64, _i32)
send = _libc("send", _i64, _i32, _i64, _i64, _i32)
epoll_wait = _libc("epoll_wait", _i32, _i32, _i64, _i32, _i32)
epoll_ctl = _libc("epoll_ctl", _i32, _i32, _i32, _i32, _i64)
sendfile = _libc("sendfile", _i64, _i32, _i32, _i64, _i64)
syscall = _libc("syscall", _i64, _i64, _i64, _i64, _i64, _i64)
clock_gettime = _libc("clock_gettime", _i32, _i32, _i64)
memmove = _libc("memmove", _i64, _i64, _i64, _i64)
memcmp = _libc("memcmp", _i32, _i64, _i64, _i64)
_errno_location = _libc("__errno_location", _i64)

MSG_DONTWAIT = 0x40
MSG_NOSIGNAL = 0x4000
EAGAIN = 11
EINTR = 4


@inlined
def errno() -> int:
    """The calling thread's errno; read it right after the failed call."""
    return load_i32(_errno_location())
