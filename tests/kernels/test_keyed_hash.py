"""Keyed hashes, beside SipHash in plain Python, which the published vectors of SipHash-2-4
check."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.kernels.keyed_hash import hash64_at, hash128_at, hash_of_words, random_key

MASK = (1 << 64) - 1
WORDS = st.integers(-(1 << 63), (1 << 63) - 1)


def siphash(key: bytes, data: bytes, rounds: tuple[int, int], double: bool) -> list[int]:
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    v[1] ^= 0xEE if double else 0

    def turn(times: int) -> None:
        for _ in range(times):
            for a, b, c, d in ((0, 1, 2, 3), (2, 1, 0, 3)):
                v[a] = (v[a] + v[b]) & MASK
                v[c] = (v[c] + v[d]) & MASK
                v[b] = rotated(v[b], 13 if a == 0 else 17) ^ v[a]
                v[d] = rotated(v[d], 16 if a == 0 else 21) ^ v[c]
                v[a] = rotated(v[a], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        turn(rounds[0])
        v[0] ^= word
    v[2] ^= 0xEE if double else 0xFF
    turn(rounds[1])
    found = [v[0] ^ v[1] ^ v[2] ^ v[3]]
    if double:
        v[1] ^= 0xDD
        turn(rounds[1])
        found.append(v[0] ^ v[1] ^ v[2] ^ v[3])
    return found


def rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & MASK


def packed(words: list[int]) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words)


@pytest.mark.parametrize(
    ("double", "size", "expected"),
    [
        (False, 0, "310e0edd47db6f72"),
        (False, 15, "e545be4961ca29a1"),
        (True, 0, "a3817f04ba25a8e66df67214c7550293"),
    ],
)
def test_the_reference_is_siphash(double: bool, size: int, expected: str) -> None:
    assert packed(siphash(bytes(range(16)), bytes(range(size)), (2, 4), double)).hex() == expected


@given(st.binary(max_size=300), WORDS)
def test_kernels_hash_as_siphash_of_fewer_rounds_does(data: bytes, key: int) -> None:
    array = np.frombuffer(data or b"\0", np.uint8)
    address, key_bytes = int(array.ctypes.data), (key & MASK).to_bytes(8, "little") + bytes(8)
    single = siphash(key_bytes, data, (1, 3), double=False)
    assert [hash64_at(address, len(data), key) & MASK] == single
    both = siphash(key_bytes, data, (1, 3), double=True)
    assert [word & MASK for word in hash128_at(address, len(data), key)] == both


@given(WORDS, WORDS, WORDS)
def test_two_words_hash_as_their_bytes(first: int, second: int, key: int) -> None:
    array = np.array([first, second], np.int64)
    assert hash_of_words(first, second, key) == hash64_at(int(array.ctypes.data), 16, key)


def test_each_process_has_a_key_of_its_own() -> None:
    assert len({random_key() for _ in range(8)}) == 8
