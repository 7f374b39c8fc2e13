"""Offsets of archived records that have no dead letter yet. Pure."""

from typing import NamedTuple

REJECTED = "Offset rejected by client."
EXCEEDED = "Offset delivery count exceeded the threshold."


class Dead(NamedTuple):
    """Offsets that were archived after this many deliveries, with Kafka's text of the reason."""

    first: int
    last: int
    delivery_count: int
    why: str


class DeadOffsets:
    """The offsets, in the order in which they were archived. Owner: a SharePartition."""

    __slots__ = ("_dead",)

    def __init__(self) -> None:
        self._dead: list[Dead] = []

    @property
    def is_empty(self) -> bool:
        return not self._dead

    def add(self, new: Dead) -> None:
        """Add offsets; adjacent offsets of one kind are written together."""
        if self._dead and self._dead[-1][1:] == (new.first - 1, new.delivery_count, new.why):
            new = new._replace(first=self._dead.pop().first)
        self._dead.append(new)

    def take(self) -> list[Dead]:
        """Remove and return all dead offsets."""
        dead, self._dead = self._dead, []
        return dead

    def remove(self, first: int, last: int) -> None:
        """Remove offsets that members hold again."""
        kept = []
        for each in self._dead:
            if each.first < first:
                kept.append(each._replace(last=min(each.last, first - 1)))
            if each.last > last:
                kept.append(each._replace(first=max(each.first, last + 1)))
        self._dead = kept
