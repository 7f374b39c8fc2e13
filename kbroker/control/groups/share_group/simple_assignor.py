"""The simple assignor of share groups: every partition to at least one member, members evenly
loaded.

Unlike in a consumer group a partition may go to several members: with more members than partitions
each member gets one, with more partitions than members each partition gets one member. Existing
assignments are kept if they fit (Kafka's SimpleAssignor).
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced

Partition = tuple[bytes, int]


def assign_shared(
    members: Mapping[str, Set[bytes]],
    available: Mapping[bytes, Set[int]],
    current: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """members: id -> topic ids it subscribes to. available: topic id -> partitions that are
    shared."""
    assignment: dict[str, list[Partition]] = {member_id: [] for member_id in members}
    ordered = sorted(members)
    partitions = [
        (topic_id, index) for topic_id in sorted(available) for index in sorted(available[topic_id])
    ]
    _give_each_partition(ordered, members, partitions, current, assignment)
    _assign_to_idle_members(ordered, members, partitions, assignment)
    return {member_id: _grouped(parts) for member_id, parts in assignment.items()}


def _give_each_partition(
    ordered: Sequence[str],
    members: Mapping[str, Set[bytes]],
    partitions: Sequence[Partition],
    current: Mapping[str, Partitions],
    assignment: dict[str, list[Partition]],
) -> None:
    """Each partition goes to the least loaded subscriber; among equals its previous owner is
    preferred."""
    for topic_id, index in paced(partitions):
        readers = [member_id for member_id in ordered if topic_id in members[member_id]]
        if readers:
            chosen = min(
                readers,
                key=lambda member_id: (
                    len(assignment[member_id]),
                    index not in current.get(member_id, {}).get(topic_id, ()),
                ),
            )
            assignment[chosen].append((topic_id, index))


def _assign_to_idle_members(
    ordered: Sequence[str],
    members: Mapping[str, Set[bytes]],
    partitions: Sequence[Partition],
    assignment: dict[str, list[Partition]],
) -> None:
    """Members that got nothing share the partitions with the fewest readers."""
    given = Counter(partition for parts in assignment.values() for partition in paced(parts))
    readers = {partition: given[partition] for partition in paced(partitions)}
    for member_id in paced(ordered):
        subscribed = [partition for partition in partitions if partition[0] in members[member_id]]
        if not assignment[member_id] and subscribed:
            chosen = min(subscribed, key=readers.__getitem__)
            assignment[member_id].append(chosen)
            readers[chosen] += 1


def _grouped(parts: Sequence[Partition]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in parts:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(each) for topic_id, each in found.items()}
