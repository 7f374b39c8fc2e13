"""The range assignor: neighbouring partitions of each topic, the same ranges for topics of equal
size.

Members are taken in the order of their instance ids, then of their member ids, so that
co-partitioned topics stay together (Kafka's RangeAssignor).
"""

from collections.abc import Sequence

from kbroker.control.groups.consumer_group.assignor import Counts, Subscriber, frozen
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced


def assign_ranges(members: Sequence[Subscriber], counts: Counts) -> dict[str, Partitions]:
    """An Assignor."""
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    assignment: dict[str, dict[bytes, set[int]]] = {member.member_id: {} for member in members}
    for topic_id, count in paced(counts.items()):
        readers = [member for member in ordered if topic_id in member.topics]
        if not readers:
            continue
        least, extra = divmod(count, len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + least + (index < extra)
            assignment[member.member_id][topic_id] = set(range(start, end))
            start = end
    return frozen(assignment)
