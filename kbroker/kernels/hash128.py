"""128-bit hash of short byte strings inside kernels: MurmurHash3_x64_128 (public domain, Austin
Appleby), seeded.

Not cryptographic: each process draws a new seed, so that no client can prepare keys that collide.
"""
# mypy: disable-error-code="no-untyped-call,no-untyped-def,no-any-return"

import numpy as np

from kbroker.kernels.jit import inlined, kernel
from kbroker.kernels.memory import load_i64, load_u8, signed, unsigned

C1 = np.uint64(0x87C37B91114253D5)
C2 = np.uint64(0x4CF5AD432745937F)
MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
ADD_1 = np.uint64(0x52DCE729)
ADD_2 = np.uint64(0x38495AB5)
FIVE = np.uint64(5)
R27, R31, R33 = np.uint64(27), np.uint64(31), np.uint64(33)
R64 = np.uint64(64)


@inlined
def _rotate(x, by):
    return (x << by) | (x >> (R64 - by))


@inlined
def _finish(x):
    x ^= x >> R33
    x *= MIX_1
    x ^= x >> R33
    x *= MIX_2
    return x ^ (x >> R33)


@inlined
def hash128(address, length, seed):
    """(low, high) 64 bits as int64 of ``length`` bytes at an address."""
    h1 = unsigned(seed)
    h2 = unsigned(seed)
    end = address + length
    while address + 16 <= end:
        h1 ^= _rotate(unsigned(load_i64(address)) * C1, R31) * C2
        h1 = (_rotate(h1, R27) + h2) * FIVE + ADD_1
        h2 ^= _rotate(unsigned(load_i64(address + 8)) * C2, R33) * C1
        h2 = (_rotate(h2, R31) + h1) * FIVE + ADD_2
        address += 16
    k1 = np.uint64(0)
    k2 = np.uint64(0)
    for n in range(end - address):
        byte = np.uint64(load_u8(address + n))
        if n < 8:
            k1 |= byte << np.uint64(8 * n)
        else:
            k2 |= byte << np.uint64(8 * (n - 8))
    h2 ^= _rotate(k2 * C2, R33) * C1
    h1 ^= _rotate(k1 * C1, R31) * C2
    h1 ^= np.uint64(length)
    h2 ^= np.uint64(length)
    h1 += h2
    h2 += h1
    h1 = _finish(h1)
    h2 = _finish(h2)
    h1 += h2
    h2 += h1
    return signed(h1), signed(h2)


@kernel("UniTuple(int64, 2)(int64, int64, int64)")
def hash_at(address: int, length: int, seed: int) -> tuple[int, int]:
    """`hash128` from Python."""
    return hash128(address, length, seed)
