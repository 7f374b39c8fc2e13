"""The partition of a coordinator's topic for a key, as in every Kafka broker."""

from functools import lru_cache
from typing import Final

import numpy as np

from kbroker.config.java_hash import string_hash

MAX_KEPT: Final = 128
"""Characters of a key whose hash is kept. A client may ask for any number of others, of 32 KiB."""


def positive_hash(key: str) -> int:
    """Absolute value of Java's String.hashCode; its minimum is 0 (Utils.abs)."""
    return kept_hash(key) if len(key) <= MAX_KEPT else positive(_long_hash(key))


@lru_cache(1 << 16)
def kept_hash(key: str) -> int:
    """As `positive_hash`, of a short key."""
    return positive(string_hash(key))


def _long_hash(key: str) -> int:
    """As `string_hash`, in a small part of its time."""
    units = np.frombuffer(key.encode("utf-16-be", "surrogatepass"), ">u2").astype(np.uint32)
    factors = np.full(len(units), 31, np.uint32)
    factors[0] = 1
    np.multiply.accumulate(factors, out=factors)
    return int((units * factors[::-1]).sum(dtype=np.uint32))


def positive(number: int) -> int:
    """Absolute value of a hash, which is an unsigned word here; its minimum is 0."""
    if number == 1 << 31:
        return 0
    return number if number < 1 << 31 else (1 << 32) - number
