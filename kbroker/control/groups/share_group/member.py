"""A member of a share group."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.control.groups.consumer_group.member import Partitions


@dataclass(frozen=True, slots=True)
class ShareMember:
    """Immutable: a heartbeat makes a changed copy, which the records then bring into the group."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)

    def same_subscription(self, other: "ShareMember") -> bool:
        """Whether what the member metadata record holds is the same."""
        return (self.rack_id, self.client_id, self.client_host, self.subscribed_topics) == (
            other.rack_id,
            other.client_id,
            other.client_host,
            other.subscribed_topics,
        )


@dataclass(frozen=True, slots=True)
class SharedTopic:
    """A topic whose partitions a group shares: name and partitions that have a share state."""

    name: str
    partitions: frozenset[int]


Shared = Mapping[bytes, SharedTopic]
