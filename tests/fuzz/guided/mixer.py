"""Random changes of bytes: damage, words of a dictionary, numbers beside those that are there, and
slices of other inputs."""

import random
from collections.abc import Callable, Sequence

from tests.fuzz.mutation import mutated

NEAR = (-1, 1, -2, 2, 127, 128, 256, -256)


def mixer(
    rng: random.Random, words: Sequence[bytes], other: Callable[[], bytes], max_bytes: int
) -> Callable[[bytes], bytes]:
    """A function that changes an input. other: gives another input."""

    def mix(data: bytes) -> bytes:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            kind = rng.random()
            if not data:
                data = rng.choice(words) if words else rng.randbytes(rng.randrange(1, 40))
            elif kind < 0.5:
                data = mutated(data, rng)
            elif kind < 0.7 and words:
                data = _with(data, rng.choice(words), rng)
            elif kind < 0.85:
                data = _counted(data, rng)
            else:
                data = _spliced(data, other(), rng)
        return data[:max_bytes]

    return mix


def _with(data: bytes, word: bytes, rng: random.Random) -> bytes:
    """A word in place of bytes, or between them."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + word + data[at + rng.choice((0, len(word))) :]


def _counted(data: bytes, rng: random.Random) -> bytes:
    """A number that is one more or less, or so."""
    size = rng.choice((1, 1, 2, 4, 8))
    at = rng.randrange(len(data))
    found = data[at : at + size]
    number = int.from_bytes(found, "big") + rng.choice(NEAR)
    return data[:at] + (number % (1 << 8 * len(found))).to_bytes(len(found), "big") + data[at + size :]


def _spliced(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The beginning of one input and the end of the other, or a slice of it in between."""
    at, start = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    if rng.random() < 0.5:
        return data[:at] + other[start:]
    piece = other[start : start + rng.choice((4, 16, 64))]
    return data[:at] + piece + data[at + rng.choice((0, len(piece))) :]
