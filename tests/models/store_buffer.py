"""Stores on their way from a core to memory: weaker than x86, so that an order needs what the code
does for it.

Stores to different words may arrive in any order, but a release arrives after everything that was
stored before it. A fence waits until all have arrived.
"""

from collections.abc import Iterator
from typing import NamedTuple

Words = tuple[int, ...]


class Store(NamedTuple):
    """word: its number. release: it arrives after all that were stored before."""

    word: int
    value: int
    release: bool = False


Stores = tuple[Store, ...]


def arrivals(stores: Stores, words: Words) -> Iterator[tuple[int, Stores, Words]]:
    """Each store that may arrive now: (word, stores left, words in memory then)."""
    for n, store in enumerate(stores):
        if n and (store.release or any(store.word == other.word for other in stores[:n])):
            continue
        yield store.word, stores[:n] + stores[n + 1 :], put(words, store.word, store.value)


def put(words: Words, number: int, value: int) -> Words:
    """The words with one of them changed."""
    return (*words[:number], value, *words[number + 1 :])


def seen(stores: Stores, words: Words, number: int) -> int:
    """What the core that stored them loads."""
    return next((store.value for store in reversed(stores) if store.word == number), words[number])
