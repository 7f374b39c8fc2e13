"""The simple assignor of share groups: every partition to at least one member, members evenly
loaded.

Unlike in a consumer group a partition may go to several members: with more members than partitions
each member gets one, with more partitions than members each partition gets one member. Existing
assignments are kept if they fit (Kafka's SimpleAssignor).
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from heapq import heapify, heapreplace

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
    partitions = {topic_id: sorted(available[topic_id]) for topic_id in paced(sorted(available))}
    _give_each_partition(ordered, members, partitions, current, assignment)
    _assign_to_idle_members(ordered, members, partitions, assignment)
    return {member_id: _grouped(parts) for member_id, parts in paced(assignment.items())}


def _give_each_partition(
    ordered: Sequence[str],
    members: Mapping[str, Set[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    current: Mapping[str, Partitions],
    assignment: dict[str, list[Partition]],
) -> None:
    """Each partition goes to the least loaded subscriber; among equals its previous owner is
    preferred."""
    readers: dict[bytes, list[int]] = {topic_id: [] for topic_id in partitions}
    owners: dict[Partition, list[int]] = {}
    for number, member_id in enumerate(paced(ordered)):
        for topic_id in paced(members[member_id]):
            if topic_id in readers:
                readers[topic_id].append(number)
        for topic_id, each in paced(current.get(member_id, {}).items()):
            if topic_id in members[member_id]:
                for index in paced(each):
                    owners.setdefault((topic_id, index), []).append(number)
    loads = [0] * len(ordered)
    for topic_id, indexes in paced(partitions.items()):
        heap = [(loads[number], number) for number in paced(readers[topic_id])]
        heapify(heap)
        for index in paced(indexes if heap else ()):
            while heap[0][0] != loads[heap[0][1]]:
                heapreplace(heap, (loads[heap[0][1]], heap[0][1]))
            load, chosen = heap[0]
            chosen = next(
                (number for number in owners.get((topic_id, index), ()) if loads[number] == load), chosen
            )
            assignment[ordered[chosen]].append((topic_id, index))
            loads[chosen] += 1


def _assign_to_idle_members(
    ordered: Sequence[str],
    members: Mapping[str, Set[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    assignment: dict[str, list[Partition]],
) -> None:
    """Members that got nothing share the partitions with the fewest readers."""
    given = Counter(partition for parts in paced(assignment.values()) for partition in paced(parts))
    heaps: dict[bytes, list[tuple[int, int]]] = {}  # (readers, partition) of each topic
    for member_id in paced(ordered):
        if assignment[member_id]:
            continue
        first: list[tuple[int, bytes, int]] = []
        for topic_id in paced(members[member_id]):
            heap = heaps.get(topic_id)
            if heap is None:
                indexes = partitions.get(topic_id, ())
                heap = heaps[topic_id] = [(given[topic_id, index], index) for index in paced(indexes)]
                heapify(heap)
            if heap:
                first.append((heap[0][0], topic_id, heap[0][1]))
        if first:
            readers, topic_id, index = min(first)
            assignment[member_id].append((topic_id, index))
            heapreplace(heaps[topic_id], (readers + 1, index))


def _grouped(parts: Sequence[Partition]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in parts:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(each) for topic_id, each in found.items()}
