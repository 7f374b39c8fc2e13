"""The broker's assignors of partitions to members."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.protocol.slices import paced

Counts = Mapping[bytes, int]
"""Topic id -> number of partitions."""


class Subscriber(Struct, frozen=True):
    """One member as an assignor sees it. topics: the existing topics that it subscribes to.
    current: its target so far."""

    member_id: str
    instance_id: str | None
    topics: frozenset[bytes]
    current: Partitions


Assignor = Callable[[Sequence[Subscriber], Counts], dict[str, Partitions]]
"""member id -> partitions; a member may be missing when it gets nothing."""


def is_homogeneous(members: Sequence[Subscriber]) -> bool:
    """Whether all subscribe to the same topics."""
    first = members[0].topics
    return all(member.topics is first or member.topics == first for member in paced(members))


def frozen(assignment: Mapping[str, Mapping[bytes, set[int]]]) -> dict[str, Partitions]:
    """The assignment in its final form, without empty sets."""
    return {
        member_id: {topic_id: frozenset(each) for topic_id, each in topics.items() if each}
        for member_id, topics in paced(assignment.items())
    }
