"""Whether the lengths in a block fit into it: looked at once, when a block arrives, and before anybody reads it."""

from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import load_i32, load_i64

HEAD_BYTES = 24  # of a message, see block.py


@kernel("boolean(int64, int64, boolean)")
def block_is_whole(block: int, length: int, of_requests: bool) -> bool:
    """block: address of its first byte. of_requests: each message has a peer before its frame; an answer has none."""
    position = 0
    while position < length:
        if length - position < HEAD_BYTES:
            return False
        message = block + position
        size = load_i64(message)
        if size < HEAD_BYTES or size > length - position or size & 7 != 0:
            return False
        second = load_i32(message + 16)
        frame = load_i32(message + 20)
        if second < 0 or frame < 0:
            return False
        if of_requests:
            second = (second + 7) & -8
        else:
            second = 0
        if second + frame > size - HEAD_BYTES:
            return False
        position += size
    return True
