"""The topics that the members of a modern group subscribe to, and a hash of those that exist.

Members of one application subscribe to the same topics. So members are counted by subscription, and
topics by different subscriptions: a member that joins or leaves changes two numbers, whatever the
group subscribes to.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from kbroker.control.groups.topic_view import TopicView, sum_of, topic_hash
from kbroker.protocol.slices import Parts, emptied, paced

FEW: Final = 1000
"""Names that are looked up one by one; of more, all topics are, of which there are fewer."""
TOUCHED: Final = 4096
"""Names that are compared one by one with the hash; after more changes it is computed again."""
NO_NAMES: Final[frozenset[str]] = frozenset()
UNKNOWN: Final = -1
"""No version of the topics."""


class Subscriptions(Collection[str]):
    """The names that all members subscribe to. Runs in: control. Owner: its group.

    changes: grows with each new subscription and each that is gone.
    """

    __slots__ = ("_counts", "_known", "_members", "_sum", "_touched", "_version", "changes")

    def __init__(self) -> None:
        self._members: dict[frozenset[str], tuple[frozenset[str], int]] = {}
        self._counts: Parts[dict[str, int]] = Parts(dict[str, int])
        self.changes = 0
        self._version = UNKNOWN  # of the topics, for which the following are true but for _touched
        self._known: dict[str, int] = {}  # hashes of existing topics
        self._sum = 0
        self._touched: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._counts.of(name)

    def __len__(self) -> int:
        return sum(map(len, self._counts.all))

    def __iter__(self) -> Iterator[str]:
        for part in self._counts.all:
            yield from paced(list(part))

    def shared(self, names: frozenset[str]) -> frozenset[str]:
        """The equal subscription of another member if there is one: the same set is compared, and
        kept in memory, once."""
        known = self._members.get(names)
        return names if known is None else known[0]

    def change(self, old: frozenset[str], new: frozenset[str]) -> None:
        """A member has another subscription. NO_NAMES: it has none."""
        if old is new:
            return
        if new:
            held, members = self._members.get(new, (new, 0))
            self._members[held] = held, members + 1
            if not members:
                self._count(held, 1)
        if old:
            held, members = self._members[old]
            if members > 1:
                self._members[held] = held, members - 1
            else:
                del self._members[held]
                self._count(held, -1)

    def _count(self, names: frozenset[str], change: int) -> None:
        of = self._counts.of
        self.changes += 1
        for name in paced(names):
            part = of(name)
            count = part.get(name, 0) + change
            if count:
                part[name] = count
            else:
                del part[name]
            if self._version != UNKNOWN and count <= 1:
                self._touched.add(name)
                if len(self._touched) > TOUCHED:
                    self._version = UNKNOWN
                    self._touched.clear()

    def existing(
        self, view: TopicView, gone: Iterable[frozenset[str]] = (), new: Iterable[frozenset[str]] = ()
    ) -> set[str]:
        """The existing topics of all subscriptions, once these of members are gone, and these are
        there."""
        self._refresh(view)
        lost, added = self._difference(gone, new)
        topics = set(self._known)
        topics.difference_update(lost)
        topics.update(name for name in paced(added) if view.id_of(name) is not None)
        emptied(lost, added)
        return topics

    def hash(
        self, view: TopicView, gone: Iterable[frozenset[str]] = (), new: Iterable[frozenset[str]] = ()
    ) -> int:
        """The metadata hash of `existing`, in time in proportion to what changes."""
        self._refresh(view)
        known = self._known
        lost, added = self._difference(gone, new)
        total = self._sum - sum(known.get(name, 0) for name in paced(lost))
        total += sum(topic_hash(name, view) for name in paced(added))
        emptied(lost, added)
        return sum_of(total)

    def _difference(
        self, gone: Iterable[frozenset[str]], new: Iterable[frozenset[str]]
    ) -> tuple[set[str], set[str]]:
        """(names that are lost, names that are added)"""
        less, more = Counter(gone), Counter(new)
        both = less & more
        less, more = less - both, more - both
        last = [names for names, count in less.items() if count >= self._members.get(names, (names, 0))[1]]
        first = [names for names in more if names and names not in self._members]
        added = {name for names in paced(first) for name in paced(names) if name not in self}
        kept = [names for names in more if names]
        ends: dict[str, int] = {}
        for names in paced(last):
            for name in paced(names):
                ends[name] = ends.get(name, 0) + 1
        lost = {
            name
            for name, count in paced(ends.items())
            if count >= self._counts.of(name).get(name, 0) and not any(name in names for names in kept)
        }
        emptied(ends)
        return lost, added

    def _refresh(self, view: TopicView) -> None:
        """Bring the hashes up to date with the topics, or with the names that have changed."""
        known = self._known
        if self._version == view.version:
            for name in paced(tuple(self._touched)):
                old = known.pop(name, 0)
                new = topic_hash(name, view) if name in self else 0
                if new:
                    known[name] = new
                self._sum += new - old
                self._touched.discard(name)
            return
        version = view.version
        self._version = UNKNOWN
        self._touched.clear()
        names: Iterable[str] = self._names_to_look_up(view)
        known = {name: found for name in paced(names) if name in self and (found := topic_hash(name, view))}
        self._known, self._sum, self._version = known, sum(known.values()), version

    def _names_to_look_up(self, view: TopicView) -> list[str]:
        return list(self if len(self) <= FEW else view.names())
