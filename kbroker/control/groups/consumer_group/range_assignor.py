"""The range assignor: neighbouring partitions of each topic, the same ranges for topics of equal
size.

Members are taken in the order of their instance ids, then of their member ids, so that
co-partitioned topics stay together (Kafka's RangeAssignor).
"""

from collections.abc import Mapping, Sequence

from kbroker.control.groups.consumer_group.assignor import Counts, Subscriber, frozen, is_homogeneous
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced


def assign_ranges(members: Sequence[Subscriber], counts: Counts) -> dict[str, Partitions]:
    """An Assignor."""
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    assignment: dict[str, dict[bytes, set[int]]] = {member.member_id: {} for member in members}
    readers = _readers(ordered, counts)
    for topic_id, count in paced(counts.items()):
        if not readers[topic_id]:
            continue
        least, extra = divmod(count, len(readers[topic_id]))
        start = 0
        for index, member in enumerate(paced(readers[topic_id])):
            if start == count:  # more readers than partitions
                break
            end = start + least + (index < extra)
            assignment[member.member_id][topic_id] = set(range(start, end))
            start = end
    return frozen(assignment)


def _readers(ordered: Sequence[Subscriber], counts: Counts) -> Mapping[bytes, Sequence[Subscriber]]:
    """The subscribers of each topic, in order."""
    if ordered and is_homogeneous(ordered):
        return {topic_id: ordered if topic_id in ordered[0].topics else () for topic_id in paced(counts)}
    readers: dict[bytes, list[Subscriber]] = {topic_id: [] for topic_id in counts}
    for member in paced(ordered):
        for topic_id in paced(member.topics):
            if topic_id in readers:
                readers[topic_id].append(member)
    return readers
