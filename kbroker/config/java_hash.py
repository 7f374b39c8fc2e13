"""Java's String.hashCode, and the order that its HashMap gives keys in: clients see both in Kafka's answers. Pure."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")


def string_hash(text: str) -> int:
    """String.hashCode, which goes over UTF-16 units, as an unsigned word."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (number * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number


def map_order(keys: Iterable[Key], hash_code: Callable[[Key], int], buckets: int = 16) -> list[Key]:
    """The keys as a HashMap iterates that began with so many buckets: by bucket, then as they came."""
    given = list(keys)
    while len(given) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: Key) -> int:
        number = hash_code(key)
        return (number ^ number >> 16) & (buckets - 1)

    return sorted(given, key=bucket)
