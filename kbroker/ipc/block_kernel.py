"""Reads and writes the messages of a block (`block.py`).

The lengths in a block are checked once, when it arrives; readers of a message rely on that check.
"""

from kbroker.ipc.layout import MessageHead, Term
from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.libc import memcmp
from kbroker.kernels.memory import copy, load_i32, load_i64, store_i32, store_i64
from kbroker.kernels.padding import padded


@kernel("boolean(int64, int64, boolean)")
def block_is_whole(block: int, length: int, of_requests: bool) -> bool:
    """Whether the lengths in a block fit into it. block: address of its first byte. of_requests:
    each message has a peer before its frame; an answer has none."""
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
        second = padded(second) if of_requests else 0
        if second + frame > size - MessageHead.SIZE:
            return False
        position += size
    return True


@inlined
def request_frame(message: int) -> tuple[int, int]:
    """The frame of a request: its address and its end."""
    frame = message + MessageHead.SIZE + padded(load_i32(message + MessageHead.PEER_BYTES))
    return frame, frame + load_i32(message + MessageHead.FRAME_BYTES)


@inlined
def answer_frame(message: int) -> tuple[int, int]:
    """The frame of an answer: its address and its end."""
    frame = message + MessageHead.SIZE
    return frame, frame + load_i32(message + MessageHead.FRAME_BYTES)


@inlined
def after_answer_frame(message: int) -> int:
    """Address of what follows the frame of an answer, padded."""
    return message + MessageHead.SIZE + padded(load_i32(message + MessageHead.FRAME_BYTES))


@inlined
def is_cacheable(message: int) -> bool:
    """Whether an answer has terms."""
    end = message + load_i64(message + MessageHead.MESSAGE_BYTES)
    return after_answer_frame(message) + Term.STRIDE <= end


@inlined
def is_from(message: int, peer: int, peer_bytes: int) -> bool:
    """Whether a request came from a peer."""
    return (
        peer_bytes == load_i32(message + MessageHead.PEER_BYTES)
        and memcmp(peer, message + MessageHead.SIZE, peer_bytes) == 0
    )


@inlined
def request_bytes(peer_bytes: int, frame_bytes: int) -> int:
    """Size of a request in a block."""
    return MessageHead.SIZE + padded(peer_bytes) + padded(frame_bytes)


@inlined
def write_request(message: int, call: int, peer: int, peer_bytes: int, frame: int, frame_bytes: int) -> None:
    """Write a request, of `request_bytes`."""
    size = request_bytes(peer_bytes, frame_bytes)
    store_i64(message + size - 8, 0)  # the padding, before the frame's end goes over it
    store_i64(message + MessageHead.MESSAGE_BYTES, size)
    store_i64(message + MessageHead.CALL, call)
    store_i32(message + MessageHead.PEER_BYTES, peer_bytes)
    store_i32(message + MessageHead.FRAME_BYTES, frame_bytes)
    copy(message + MessageHead.SIZE, peer, peer_bytes)
    copy(message + MessageHead.SIZE + padded(peer_bytes), frame, frame_bytes)


@inlined
def write_answer(message: int, call: int, frame: int, frame_bytes: int) -> int:
    """Write an answer of status 0; the address after it."""
    size = MessageHead.SIZE + padded(frame_bytes)
    store_i64(message + size - 8, 0)
    store_i64(message + MessageHead.MESSAGE_BYTES, size)
    store_i64(message + MessageHead.CALL, call)
    store_i32(message + MessageHead.STATUS, 0)
    store_i32(message + MessageHead.FRAME_BYTES, frame_bytes)
    copy(message + MessageHead.SIZE, frame, frame_bytes)
    return message + size
