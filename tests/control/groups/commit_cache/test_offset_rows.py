"""The rows of committed offsets, and the index by which kernels find them."""

import numpy as np

from kbroker.control.groups.commit_cache.offset_rows import OffsetRows

WORD = (1 << 64) - 1
MULTIPLIER = -7046029254386353131


def mixed(value: int, word: int) -> int:
    value = (value ^ word) * MULTIPLIER & WORD
    return value ^ value >> 29


def colliding_keys(count: int) -> list[bytes]:
    """Keys of offsets to which multiplications and shifts without a secret gave one place of an
    index."""
    head = b"\0\1\0\x08" + b"g" * 8 + b"\0\x12" + b"t" * 10
    value = len(head) + 8
    for at in range(0, len(head), 8):
        value = mixed(value, int.from_bytes(head[at : at + 8], "little"))
    back = pow(MULTIPLIER, -1, 1 << 64)
    found = []
    for number in range(count):
        hashed = number << 40
        hashed ^= hashed >> 29 ^ hashed >> 58
        found.append(head + (value ^ hashed * back & WORD).to_bytes(8, "little"))
    return found


def test_chosen_keys_have_places_of_their_own() -> None:
    """Clients may choose groups; each search would read all of a long run."""
    rows = OffsetRows()
    for key in colliding_keys(2000):
        assert rows.enter(key, bytes(16), idle=True) >= 0
    free = np.flatnonzero(rows._index == 0)
    assert np.diff(free).max() < 400
