"""Damage to valid bytes: flips, cuts, extreme lengths, slices doubled, moved or swapped, random
tails."""

import random

EXTREMES = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 10,
    b"\0\0\0\0",
    b"\0\0\0\1",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x80\0",
    b"\0",
)


def mutated(data: bytes, rng: random.Random, first: int = 0) -> bytes:
    """``data`` with one to five damages, none of them before byte ``first``."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        if len(out) <= first:
            return bytes(out)
        _damage(out, rng, first)
    return bytes(out)


def _damage(out: bytearray, rng: random.Random, first: int) -> None:
    at = rng.randrange(first, len(out))
    size = rng.choice((1, 2, 4, 8, 16, 61, rng.randint(1, 300)))
    other = rng.randrange(first, len(out))
    action = rng.randrange(9)
    if action == 0:
        out[at] ^= 1 << rng.randrange(8)
    elif action == 1:
        out[at] = rng.randrange(256)
    elif action == 2:
        del out[at:]
    elif action == 3:
        extreme = rng.choice(EXTREMES)
        out[at : at + len(extreme)] = extreme
    elif action == 4:  # a slice doubled
        out[at:at] = out[at : at + size]
    elif action == 5:  # a slice over another place
        out[at : at + size] = out[other : other + size]
    elif action == 6:  # two slices swapped
        low, high = sorted((at, other))
        size = min(size, high - low, len(out) - high)
        out[low : low + size], out[high : high + size] = out[high : high + size], out[low : low + size]
    elif action == 7:
        del out[at : at + size]
    else:
        out += rng.randbytes(size)


def pieces(data: bytes, rng: random.Random) -> list[bytes]:
    """``data`` cut at up to six random places."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(0, 6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
