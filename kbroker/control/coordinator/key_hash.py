"""Which partition of a coordinator's topic a key belongs to, as in every Kafka broker."""

from functools import lru_cache


@lru_cache(1 << 16)
def positive_hash(key: str) -> int:
    """Absolute value of Java's String.hashCode, which goes over UTF-16 units; its minimum is 0 (Utils.abs)."""
    number = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (number * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if number == 1 << 31:
        return 0
    return number if number < 1 << 31 else (1 << 32) - number
