"""Keyed hashes inside kernels: SipHash-1-3 (Aumasson and Bernstein), of 64 and of 128 bits.

Clients choose the bytes that are hashed, and the tables probe linearly. Hashes that are only
seeded, such as MurmurHash3, have keys that collide for each seed; nobody knows such keys of SipHash
without its key. The key of a process is random.
"""
# mypy: disable-error-code="no-untyped-call,no-untyped-def,no-any-return"

import os

import numpy as np

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i64, load_u8, signed, unsigned

V0 = np.uint64(0x736F6D6570736575)
V1 = np.uint64(0x646F72616E646F6D)
V2 = np.uint64(0x6C7967656E657261)
V3 = np.uint64(0x7465646279746573)
END = np.uint64(0xFF)
END_128 = np.uint64(0xEE)
SECOND = np.uint64(0xDD)
WORD_BITS = np.uint64(64)


def random_key() -> int:
    """A new key, as an int64."""
    return int.from_bytes(os.urandom(8), "little", signed=True)


@inlined
def _rotate(x, by):
    return (x << np.uint64(by)) | (x >> (WORD_BITS - np.uint64(by)))


@inlined
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16) ^ v2
    v0 += v3
    v3 = _rotate(v3, 21) ^ v0
    v2 += v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@inlined
def _take(v0, v1, v2, v3, word):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@inlined
def _finish(v0, v1, v2, v3):
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return _round(v0, v1, v2, v3)


@inlined
def _taken(address, length, key, v1):
    """The state after the bytes at an address. The second half of SipHash's key is 0."""
    k = unsigned(key)
    v0, v1, v2, v3 = V0 ^ k, v1, V2 ^ k, V3
    end = address + length
    while address + 8 <= end:
        v0, v1, v2, v3 = _take(v0, v1, v2, v3, unsigned(load_i64(address)))
        address += 8
    last = np.uint64(length & 0xFF) << np.uint64(56)
    for n in range(end - address):
        last |= np.uint64(load_u8(address + n)) << np.uint64(8 * n)
    return _take(v0, v1, v2, v3, last)


@inlined
def hash64(address: int, length: int, key: int) -> int:
    """Hash of ``length`` bytes at an address, as an int64."""
    v0, v1, v2, v3 = _taken(address, length, key, V1)
    v0, v1, v2, v3 = _finish(v0, v1, v2 ^ END, v3)
    return signed(v0 ^ v1 ^ v2 ^ v3)


@inlined
def hash128(address, length, key):
    """(low, high) 64 bits as int64 of ``length`` bytes at an address."""
    v0, v1, v2, v3 = _taken(address, length, key, V1 ^ END_128)
    v0, v1, v2, v3 = _finish(v0, v1, v2 ^ END_128, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _finish(v0, v1 ^ SECOND, v2, v3)
    return signed(low), signed(v0 ^ v1 ^ v2 ^ v3)


@inlined
def hash_words(first, second, key):
    """`hash64` of two words."""
    k = unsigned(key)
    v0, v1, v2, v3 = _take(V0 ^ k, V1, V2 ^ k, V3, unsigned(first))
    v0, v1, v2, v3 = _take(v0, v1, v2, v3, unsigned(second))
    v0, v1, v2, v3 = _take(v0, v1, v2, v3, np.uint64(16) << np.uint64(56))
    v0, v1, v2, v3 = _finish(v0, v1, v2 ^ END, v3)
    return signed(v0 ^ v1 ^ v2 ^ v3)


@kernel("int64(int64, int64, int64)")
def hash64_at(address: int, length: int, key: int) -> int:
    """`hash64` from Python."""
    return hash64(address, length, key)


@kernel("UniTuple(int64, 2)(int64, int64, int64)")
def hash128_at(address: int, length: int, key: int) -> tuple[int, int]:
    """`hash128` from Python."""
    return hash128(address, length, key)


@kernel("int64(int64, int64, int64)")
def hash_of_words(first: int, second: int, key: int) -> int:
    """`hash_words` from Python."""
    return hash_words(first, second, key)
