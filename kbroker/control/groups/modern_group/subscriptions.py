"""The topics that the members of a modern group subscribe to by name, and by how many members."""

from collections.abc import Iterable
from typing import Final

from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.slices import paced

FEW: Final = 1000
"""Names that are looked up one by one; of more, all topics are, of which there are fewer."""
NO_NAMES: Final[frozenset[str]] = frozenset()


class Subscriptions:
    """Runs in: control. Owner: its group. A member may name any topics, however many: what a
    heartbeat needs is found without a look at those of all members. total: names of all members."""

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.total = 0

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    def change(self, old: frozenset[str], new: frozenset[str]) -> None:
        """A member subscribes to other topics."""
        if old is new:
            return
        counts = self._counts
        for name in paced(new):
            if name not in old:
                counts[name] = counts.get(name, 0) + 1
        for name in paced(old):
            if name not in new:
                left = counts[name] - 1
                if left:
                    counts[name] = left
                else:
                    del counts[name]
        self.total += len(new) - len(old)

    def existing(
        self, view: TopicView, old: Iterable[frozenset[str]] = (), new: frozenset[str] = NO_NAMES
    ) -> set[str]:
        """The topics that exist, of all members' subscriptions. They may be about to change: the
        old ones will be gone, and the new one will be there."""
        counts = self._counts
        gone: dict[str, int] = {}
        for names in old:
            for name in paced(names):
                gone[name] = gone.get(name, 0) + 1
        topics = list(counts) if len(counts) <= FEW else view.names()
        left = [name for name in paced(topics) if counts.get(name, 0) > gone.get(name, 0)]
        found = {name for name in paced(left) if view.id_of(name) is not None}
        found.update(name for name in paced(new) if view.id_of(name) is not None)
        return found
