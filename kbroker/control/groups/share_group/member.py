"""A member of a share group."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from kbroker.control.groups.modern_group.member import ModernMember
from kbroker.control.groups.modern_group.partitions import Partitions


class ShareMember(ModernMember, frozen=True):
    """assigned: partitions that it reads, shared with other members."""

    METADATA: ClassVar[tuple[str, ...]] = ("rack_id", "client_id", "client_host", "subscribed_topics")

    subscribed_topics: frozenset[str] = frozenset()
    assigned: Partitions = field(default_factory=dict)


class SharedTopic(Struct, frozen=True):
    """A topic whose partitions a group shares: name and partitions that have a share state."""

    name: str
    partitions: frozenset[int]


Shared = Mapping[bytes, SharedTopic]
