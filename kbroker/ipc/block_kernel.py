"""Checks that the lengths in a block fit into it: once, when the block arrives, before anybody reads it."""

from kbroker.ipc.block_layout import MessageHead
from kbroker.kernels.jit import kernel
from kbroker.kernels.memory import load_i32, load_i64


@kernel("boolean(int64, int64, boolean)")
def block_is_whole(block: int, length: int, of_requests: bool) -> bool:
    """block: address of its first byte. of_requests: each message has a peer before its frame; an answer has none."""
    position = 0
    while position < length:
        if length - position < MessageHead.SIZE:
            return False
        message = block + position
        size = load_i64(message + MessageHead.MESSAGE_BYTES)
        if size < MessageHead.SIZE or size > length - position or size & 7 != 0:
            return False
        second = load_i32(message + MessageHead.PEER_BYTES)
        frame = load_i32(message + MessageHead.FRAME_BYTES)
        if second < 0 or frame < 0:
            return False
        if of_requests:
            second = (second + 7) & -8
        else:
            second = 0
        if second + frame > size - MessageHead.SIZE:
            return False
        position += size
    return True
