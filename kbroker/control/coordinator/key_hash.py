"""The partition of a coordinator's topic for a key, as in every Kafka broker."""

from functools import lru_cache

from kbroker.config.java_hash import string_hash


@lru_cache(1 << 16)
def positive_hash(key: str) -> int:
    """Absolute value of Java's String.hashCode; its minimum is 0 (Utils.abs)."""
    return positive(string_hash(key))


def positive(number: int) -> int:
    """Absolute value of a hash, which is an unsigned word here; its minimum is 0."""
    if number == 1 << 31:
        return 0
    return number if number < 1 << 31 else (1 << 32) - number
