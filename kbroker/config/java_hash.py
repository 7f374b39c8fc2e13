"""Java's String.hashCode, and the order in which its maps and Kafka's give keys: clients see both
in answers. Pure."""

from collections.abc import Callable, Iterable
from operator import mul
from typing import Final, TypeVar

Key = TypeVar("Key")
Sort = Callable[[Iterable[tuple[int, int]]], list[tuple[int, int]]]
"""Sorts (place in a map, place among the keys). That of long lists lets other work run between."""
MAX_READY: Final = 256
"""Characters of a text with ready factors."""
_FACTORS: Final = tuple(pow(31, power, 1 << 32) for power in reversed(range(MAX_READY)))
_GOLDEN_RATIO = 0x9E3779B97F4A7C15


def string_hash(text: str) -> int:
    """String.hashCode, which goes over UTF-16 units, as an unsigned word."""
    length = len(text)
    if text.isascii() and length <= MAX_READY:  # names are, and some hundred thousand are hashed at once
        return sum(map(mul, text.encode(), _FACTORS[MAX_READY - length :])) & 0xFFFFFFFF
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        number = (number * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return number


def map_order(
    keys: Iterable[Key], hash_code: Callable[[Key], int], buckets: int = 16, sort: Sort = sorted
) -> list[Key]:
    """The keys in the order in which a HashMap iterates over them that began with `buckets`: by
    bucket, then in their own order."""
    given = list(keys)
    while len(given) > buckets * 3 // 4:
        buckets *= 2

    def bucket(key: Key) -> int:
        number = hash_code(key)
        return (number ^ number >> 16) & (buckets - 1)

    return _ordered(given, bucket, sort)


def concurrent_map_order(keys: Iterable[Key], hash_code: Callable[[Key], int]) -> list[Key]:
    """The keys as a ConcurrentHashMap iterates: it grows one key sooner than a HashMap."""
    given = list(keys)
    buckets = 16
    while len(given) >= buckets * 3 // 4:
        buckets *= 2
    return map_order(given, hash_code, buckets)


def timeline_order(keys: Iterable[Key], hash_code: Callable[[Key], int], sort: Sort = sorted) -> list[Key]:
    """The keys as Kafka's TimelineHashMap iterates when it never held more of them: by slot, in one
    the last first."""
    given = list(keys)
    given.reverse()
    bits = 1
    while len(given) * 3 > 4 << bits:
        bits += 1

    def slot(key: Key) -> int:
        number = hash_code(key)
        signed = number - (1 << 32) if number >> 31 else number
        return (signed * _GOLDEN_RATIO & (1 << 64) - 1) >> (64 - bits)

    return _ordered(given, slot, sort)


def _ordered(given: list[Key], place: Callable[[Key], int], sort: Sort) -> list[Key]:
    return [given[at] for _, at in sort((place(key), at) for at, key in enumerate(given))]
