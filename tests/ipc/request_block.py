"""What the network process's kernel writes for control, in Python."""

from kbroker.ipc.block import HEAD, HEAD_BYTES, padded


def pack_request(call: int, peer: bytes, frame: bytes) -> bytes:
    """One request of a block. call: negative. peer: as `pack_peer` makes it. frame: without its
    size."""
    content = padded(peer) + padded(frame)
    return HEAD.pack(HEAD_BYTES + len(content), call, len(peer), len(frame)) + content
