"""The choice of the rows that have series of their own: the largest ones, the same from scrape to
scrape."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

CLEARLY_LARGER = 1.25
"""A shown row loses its place only to a row that is larger by this factor. Rows of nearly the same
size would otherwise replace each other, and a graph of each would have gaps."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class ShownRows(Generic[K]):
    """Runs in: http. Owner: the rows that it chooses from. max_rows: the maximum of shown rows."""

    def __init__(self, max_rows: int) -> None:
        self._max_rows = max_rows
        self.keys: AbstractSet[K] = frozenset()

    def of(
        self,
        items: Sequence[T],
        key: Callable[[T], K],
        size: Callable[[T], float],
        owner: Callable[[T], Hashable] | None = None,
    ) -> list[T]:
        """The shown items, in their order; remembers their keys. owner: see `largest`."""
        chosen = largest(items, self._max_rows, self.keys, key, size, owner)
        self.keys = frozenset(map(key, chosen))
        return chosen


def largest(
    items: Sequence[T],
    max_rows: int,
    shown: AbstractSet[K],
    key: Callable[[T], K],
    size: Callable[[T], float],
    owner: Callable[[T], Hashable] | None = None,
) -> list[T]:
    """At most `max_rows` items, in their order: those with the largest sizes. Items that are shown
    count as larger than they are, and are preferred. Of items that are still equal, each owner has
    one before an owner has a second one; then the first ones are preferred."""
    if len(items) <= max_rows:
        return list(items)
    places = []
    for item in items:
        is_shown, number = key(item) in shown, size(item)
        if is_shown and number > 0:
            number *= CLEARLY_LARGER
        places.append((number, is_shown))
    order = sorted(range(len(items)), key=places.__getitem__, reverse=True)
    if owner is not None and max_rows and places[order[max_rows - 1]] == places[order[max_rows]]:
        turns = _turns([owner(item) for item in items], order)
        order.sort(key=lambda number: (places[number], -turns[number]), reverse=True)
    return [items[number] for number in sorted(order[:max_rows])]


def _turns(owners: Sequence[Hashable], order: Sequence[int]) -> list[int]:
    """The place of each item among those of its owner, in this order."""
    counts: Counter[Hashable] = Counter()
    turns = [0] * len(owners)
    for number in order:
        turns[number] = counts[owners[number]]
        counts[owners[number]] += 1
    return turns
