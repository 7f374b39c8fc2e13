"""The uniform assignor: equal numbers of partitions, and as few moves as possible (Kafka's
UniformAssignor).

Balance goes before stickiness. Partitions of all topics count the same.
"""

from collections.abc import Sequence

from kbroker.control.groups.consumer_group.assignor import Counts, Subscriber, frozen, is_homogeneous
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced

_Assignment = dict[str, dict[bytes, set[int]]]
_Partition = tuple[bytes, int]


def assign_uniformly(members: Sequence[Subscriber], counts: Counts) -> dict[str, Partitions]:
    """An Assignor."""
    if not members:
        return {}
    if is_homogeneous(members):
        return frozen(_equal_shares(members, counts))
    return frozen(_balanced(members, counts))


def _kept(members: Sequence[Subscriber], counts: Counts) -> tuple[_Assignment, list[_Partition]]:
    """The partitions that members keep, and the unassigned partitions."""
    free = {(topic_id, partition): None for topic_id, count in counts.items() for partition in range(count)}
    kept: _Assignment = {}
    for member in members:
        owned = kept.setdefault(member.member_id, {})
        for topic_id, partitions in member.current.items():
            if topic_id not in member.topics:
                continue
            for partition in sorted(partitions):
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
    sizes = {member.member_id: _size(kept[member.member_id]) for member in members}
    # Who has more than the least share already keeps the odd partition; sort is stable for the
    # rest.
    ordered = sorted(members, key=lambda member: sizes[member.member_id] <= least)
    quotas = {member.member_id: least + (index < extra) for index, member in enumerate(ordered)}
    for member_id, owned in kept.items():
        for topic_id in reversed(owned):
            surplus = _size(owned) - quotas[member_id]
            if surplus > 0:
                given = sorted(owned[topic_id])[-surplus:]
                owned[topic_id] -= set(given)
                free += [(topic_id, partition) for partition in given]
    rest = iter(free)
    for member_id, owned in kept.items():
        for _ in range(quotas[member_id] - _size(owned)):
            topic_id, partition = next(rest)
            owned.setdefault(topic_id, set()).add(partition)
    return kept


def _balanced(members: Sequence[Subscriber], counts: Counts) -> _Assignment:
    """Subscriptions differ: give to the least loaded, then move while that makes the load more
    even."""
    kept, free = _kept(members, counts)
    readers = {
        topic_id: [member.member_id for member in members if topic_id in member.topics] for topic_id in counts
    }
    load = {member_id: _size(owned) for member_id, owned in kept.items()}
    # Topics with few readers first: the others have more places to go to.
    for topic_id, partition in paced(sorted(free, key=lambda each: len(readers[each[0]]))):
        if readers[topic_id]:
            receiver = min(readers[topic_id], key=load.__getitem__)
            kept[receiver].setdefault(topic_id, set()).add(partition)
            load[receiver] += 1
    while _even_out(kept, readers, load):
        pass
    return kept


def _even_out(kept: _Assignment, readers: dict[bytes, list[str]], load: dict[str, int]) -> bool:
    """One round of moves from who has at least two more to the least loaded reader. False: nothing
    moved."""
    moved = False
    for giver in paced(sorted(load, key=load.__getitem__, reverse=True)):
        for topic_id in list(kept[giver]):
            while kept[giver][topic_id]:
                receiver = min(readers[topic_id], key=load.__getitem__)
                if load[giver] - load[receiver] < 2:
                    break
                partition = max(kept[giver][topic_id])
                kept[giver][topic_id].discard(partition)
                kept[receiver].setdefault(topic_id, set()).add(partition)
                load[giver] -= 1
                load[receiver] += 1
                moved = True
    return moved


def _size(topics: dict[bytes, set[int]]) -> int:
    return sum(map(len, topics.values()))
