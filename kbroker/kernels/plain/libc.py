"""C functions for plain kernels: called by ctypes, after a check of the memory that they read or
write."""

import ctypes
from collections.abc import Callable
from typing import Any

from kbroker.kernels.plain.memory import load
from kbroker.kernels.plain.memory_map import MEMORY

IOVEC_BYTES = 16
EPOLL_EVENT_BYTES = 12
POLLFD_BYTES = 8
TIMESPEC_BYTES = 16
RUSAGE_BYTES = 144

TYPES = {"int64": ctypes.c_int64, "int32": ctypes.c_int32}
LIBC = ctypes.CDLL(None, use_errno=True)
load_word = load(64, True, False)


def _iovecs(arguments: tuple[int, ...]) -> None:
    _, first, count, *_ = arguments
    MEMORY.check(first, count * IOVEC_BYTES, "read")
    for entry in range(first, first + count * IOVEC_BYTES, IOVEC_BYTES):
        MEMORY.check(load_word(entry), load_word(entry + 8), "read")


def _sizes(action: str, *pairs: tuple[int, int]) -> Callable[[tuple[int, ...]], None]:
    """A check of buffers. pairs: the numbers of the arguments with a buffer's address and size."""

    def check(arguments: tuple[int, ...]) -> None:
        for address, size in pairs:
            MEMORY.check(arguments[address], arguments[size], action)

    return check


def _fixed(action: str, argument: int, size: int) -> Callable[[tuple[int, ...]], None]:
    """A check of a pointer that may be null. argument: its number; size: bytes that it points
    to."""

    def check(arguments: tuple[int, ...]) -> None:
        if arguments[argument]:
            MEMORY.check(arguments[argument], size, action)

    return check


def _moved(arguments: tuple[int, ...]) -> None:
    target, source, size = arguments
    MEMORY.check(source, size, "read")
    MEMORY.check(target, size, "write")


def _events(arguments: tuple[int, ...]) -> None:
    MEMORY.check(arguments[1], arguments[2] * EPOLL_EVENT_BYTES, "write")


def _polled(arguments: tuple[int, ...]) -> None:
    MEMORY.check(arguments[0], arguments[1] * POLLFD_BYTES, "write")


CHECKS: dict[str, Callable[[tuple[int, ...]], None]] = {
    "read": _sizes("write", (1, 2)),
    "pread": _sizes("write", (1, 2)),
    "recv": _sizes("write", (1, 2)),
    "write": _sizes("read", (1, 2)),
    "pwrite": _sizes("read", (1, 2)),
    "send": _sizes("read", (1, 2)),
    "pwritev": _iovecs,
    "memmove": _moved,
    "memcmp": _sizes("read", (0, 2), (1, 2)),
    "epoll_wait": _events,
    "poll": _polled,
    "epoll_ctl": _fixed("read", 3, EPOLL_EVENT_BYTES),
    "setsockopt": _sizes("read", (3, 4)),
    "sendfile": _fixed("write", 2, 8),
    "clock_gettime": _fixed("write", 1, TIMESPEC_BYTES),
    "getrusage": _fixed("write", 1, RUSAGE_BYTES),
}
WITHOUT_POINTERS = {"lseek", "fallocate", "ftruncate", "fdatasync", "dup", "close", "sched_yield", "syscall"}


def external(name: str, result: str, arguments: tuple[str, ...]) -> Callable[..., int]:
    """A C function by its name. Raises KeyError for a function whose use of memory is not described
    above."""
    if name == "__errno_location":
        return lambda: 0
    check = None if name in WITHOUT_POINTERS else CHECKS[name]
    function = LIBC[name]
    function.restype = TYPES[result]
    function.argtypes = [TYPES[argument] for argument in arguments]

    def call(*given: int) -> int:
        numbers = tuple(int(one) for one in given)
        if check is not None:
            check(numbers)
        found: int = function(*numbers)
        return found

    return call


def errno() -> int:
    """The calling thread's errno, as the last C function left it."""
    return ctypes.get_errno()


def call_pointer(result: str, arguments: tuple[str, ...]) -> Callable[..., int]:
    """A function that calls the C function at its first argument."""
    prototype: Any = ctypes.CFUNCTYPE(TYPES[result], *(TYPES[argument] for argument in arguments))

    def call(function: int, *given: int) -> int:
        found: int = prototype(int(function))(*(int(one) for one in given))
        return found

    return call
