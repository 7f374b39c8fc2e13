"""Texts to compress, and a decoder of ours in a room whose bounds are watched."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from kbroker.kernels.lz4 import SLACK_BYTES

ROOM = 200_000
TEXT = b"".join(b"line %d of some text that repeats itself\n" % (i % 300) for i in range(3000))
PLAIN = st.one_of(
    st.binary(max_size=400),
    st.lists(st.sampled_from([b"a", b"ab", b"xyz", b"0123456789" * 3]), max_size=300).map(b"".join),
    st.builds(lambda size, start: TEXT[start : start + size], st.integers(0, 90_000), st.integers(0, 2000)),
)


def plain_of(decoder: Callable[[int, int, int, int], int], packed: bytes, room: int = ROOM) -> bytes | None:
    """What a decoder writes, None when it takes nothing; it keeps to its room."""
    source = np.frombuffer(packed + b"\0", np.uint8)
    out = np.full(room + SLACK_BYTES + 8, 0xEE, np.uint8)
    written = decoder(source.ctypes.data, len(packed), out.ctypes.data, room)
    assert written <= room
    assert (out[room + SLACK_BYTES :] == 0xEE).all()
    return None if written < 0 else out[:written].tobytes()


def damaged(packed: bytes, data: st.DataObject) -> bytes:
    """With some bytes altered, perhaps cut."""
    out = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 3))):
        out[data.draw(st.integers(0, len(out) - 1))] = data.draw(st.integers(0, 255))
    return bytes(out[: data.draw(st.integers(0, len(out)))] if data.draw(st.booleans()) else out)
