"""Inputs of several parts: each has its length before it, and any bytes are some parts."""

import random
import struct
from collections.abc import Callable, Iterable

from tests.fuzz.guided.target import Mix

LENGTH = struct.Struct(">I")
MAX_PARTS = 40


def join(parts: Iterable[bytes]) -> bytes:
    return b"".join(LENGTH.pack(len(part)) + part for part in parts)


def split(data: bytes) -> list[bytes]:
    """The parts; the last one ends with the input."""
    parts: list[bytes] = []
    at = 0
    while at + LENGTH.size <= len(data) and len(parts) < MAX_PARTS:
        (length,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        parts.append(data[at : at + length])
        at += length
    return parts


def change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Some parts changed, doubled, removed or exchanged."""
    return changed_by(mix)(data, rng)


def changed_by(mix: Mix) -> Callable[[bytes, random.Random], bytes]:
    """As `change`; mix: of one part."""

    def changed(data: bytes, rng: random.Random) -> bytes:
        parts = split(data) or [b""]
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            at = rng.randrange(len(parts))
            kind = rng.random()
            if kind < 0.75:
                parts[at] = mix(parts[at])
            elif kind < 0.83:
                parts.insert(at, parts[rng.randrange(len(parts))])
            elif kind < 0.92 and len(parts) > 1:
                del parts[at]
            else:
                other = rng.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
        return join(parts)

    return changed
