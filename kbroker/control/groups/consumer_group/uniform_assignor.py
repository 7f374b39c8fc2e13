"""The uniform assignor: equal numbers of partitions, and as few moves as possible (Kafka's
UniformAssignor).

Balance goes before stickiness. Partitions of all topics count the same.
"""

from collections.abc import Sequence
from heapq import heapify, heappush, heapreplace
from typing import Final

from kbroker.control.groups.consumer_group.assignor import Counts, Subscriber, frozen, is_homogeneous
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced

_Assignment = dict[str, dict[bytes, set[int]]]
_Partition = tuple[bytes, int]

MAX_ROUNDS: Final = 16
"""Rounds of moves between members with different subscriptions, as in Kafka's builder."""


def assign_uniformly(members: Sequence[Subscriber], counts: Counts) -> dict[str, Partitions]:
    """An Assignor."""
    if not members:
        return {}
    if is_homogeneous(members):
        return frozen(_equal_shares(members, counts))
    return frozen(_balanced(members, counts))


def _kept(members: Sequence[Subscriber], counts: Counts) -> tuple[_Assignment, list[_Partition]]:
    """The partitions that members keep, and the unassigned partitions."""
    free = {
        (topic_id, partition): None
        for topic_id, count in paced(counts.items())
        for partition in paced(range(count))
    }
    kept: _Assignment = {}
    for member in paced(members):
        owned = kept.setdefault(member.member_id, {})
        for topic_id, partitions in paced(member.current.items()):
            if topic_id not in member.topics:
                continue
            for partition in paced(sorted(partitions)):
                if (topic_id, partition) in free:
                    del free[topic_id, partition]
                    owned.setdefault(topic_id, set()).add(partition)
    return kept, list(free)


def _equal_shares(members: Sequence[Subscriber], counts: Counts) -> _Assignment:
    """All members subscribe to all topics: each gets its share, first from the partitions that it
    has."""
    subscribed = {topic_id: count for topic_id, count in counts.items() if topic_id in members[0].topics}
    kept, free = _kept(members, subscribed)
    least, extra = divmod(sum(subscribed.values()), len(members))
    sizes = {member.member_id: _size(kept[member.member_id]) for member in paced(members)}
    # Who has more than the least share already keeps the odd partition; sort is stable for the
    # rest.
    ordered = sorted(members, key=lambda member: sizes[member.member_id] <= least)
    quotas = {member.member_id: least + (index < extra) for index, member in enumerate(ordered)}
    for member_id, owned in paced(kept.items()):
        for topic_id in reversed(owned):
            surplus = _size(owned) - quotas[member_id]
            if surplus > 0:
                given = sorted(owned[topic_id])[-surplus:]
                owned[topic_id] -= set(given)
                free += [(topic_id, partition) for partition in given]
    rest = iter(free)
    for member_id, owned in paced(kept.items()):
        for _ in paced(range(quotas[member_id] - _size(owned))):
            topic_id, partition = next(rest)
            owned.setdefault(topic_id, set()).add(partition)
    return kept


def _balanced(members: Sequence[Subscriber], counts: Counts) -> _Assignment:
    """Subscriptions differ: give to the least loaded, then move while that makes the load more
    even."""
    kept, free = _kept(members, counts)
    readers: dict[bytes, list[int]] = {topic_id: [] for topic_id in counts}
    for number, member in enumerate(paced(members)):
        for topic_id in paced(member.topics):
            if topic_id in readers:
                readers[topic_id].append(number)
    loads = _Loads(members, kept, readers)
    # Topics with few readers first: the others have more places to go to.
    for topic_id, partition in paced(sorted(free, key=lambda each: len(readers[each[0]]))):
        if readers[topic_id]:
            receiver = loads.least(topic_id)
            kept[members[receiver].member_id].setdefault(topic_id, set()).add(partition)
            loads.change(receiver, 1)
    for _ in range(MAX_ROUNDS):
        if not _even_out(members, kept, loads):
            break
    return kept


class _Loads:
    """Numbers of partitions of the members, and the least loaded reader of each topic.

    A heap for each topic has an entry of each of its readers with a load that is, or was, its own;
    entries are corrected when they come first. So it must have one that is not too large: `lower`
    adds it."""

    def __init__(
        self, members: Sequence[Subscriber], kept: _Assignment, readers: dict[bytes, list[int]]
    ) -> None:
        self.of = [_size(kept[member.member_id]) for member in paced(members)]
        self._members = members
        self._readers = readers
        self._heaps: dict[bytes, list[tuple[int, int]]] = {}

    def least(self, topic_id: bytes) -> int:
        """The least loaded reader of a topic that has readers, the first of several."""
        heap = self._heaps.get(topic_id)
        if heap is None:
            heap = self._heaps[topic_id] = [
                (self.of[number], number) for number in paced(self._readers[topic_id])
            ]
            heapify(heap)
        while True:
            load, number = heap[0]
            if load == self.of[number]:
                return number
            heapreplace(heap, (self.of[number], number))

    def change(self, number: int, change: int) -> None:
        """A member has more or fewer partitions; after fewer, `lower` must follow."""
        self.of[number] += change

    def lower(self, number: int) -> None:
        """A member has fewer partitions than its entries say."""
        for topic_id in paced(self._members[number].topics):
            heap = self._heaps.get(topic_id)
            if heap is not None:
                heappush(heap, (self.of[number], number))


def _even_out(members: Sequence[Subscriber], kept: _Assignment, loads: _Loads) -> bool:
    """One round of moves from members that have at least two more to the least loaded reader.
    False: nothing moved."""
    moved = False
    load = loads.of
    for giver in paced(sorted(range(len(members)), key=load.__getitem__, reverse=True)):
        own = kept[members[giver].member_id]
        given = 0
        for topic_id in paced(list(own)):
            while own[topic_id]:
                receiver = loads.least(topic_id)
                if load[giver] - load[receiver] < 2:
                    break
                partition = max(own[topic_id])
                own[topic_id].discard(partition)
                kept[members[receiver].member_id].setdefault(topic_id, set()).add(partition)
                loads.change(giver, -1)
                loads.change(receiver, 1)
                given += 1
        if given:
            loads.lower(giver)
            moved = True
    return moved


def _size(topics: dict[bytes, set[int]]) -> int:
    return sum(map(len, topics.values()))
