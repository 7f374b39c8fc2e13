"""Records of a pipe that blocks, for compiled threads that serve it: a pipe takes and gives small
records whole."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.libc import EINTR, errno, read, write


@inlined
def take_record(fd: int, address: int, size: int) -> bool:
    """Wait for a record; False when there will be none."""
    while True:
        got = read(fd, address, size)
        if got >= 0 or errno() != EINTR:
            return got == size


@inlined
def give_record(fd: int, address: int, size: int) -> bool:
    """Write a record; False when the pipe has no reader."""
    while write(fd, address, size) < 0:
        if errno() != EINTR:
            return False
    return True
