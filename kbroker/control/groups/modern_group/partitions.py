"""Partitions of topics, as members are assigned them."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol

from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.slices import paced

Partitions = Mapping[bytes, frozenset[int]]
"""Topic id -> partitions, of a target assignment or of what a member owns. No empty sets."""

EpochPartitions = Mapping[bytes, Mapping[int, int]]
"""Topic id -> partition -> epoch in which the member got it (KIP-1251). No empty mappings."""

NO_PARTITIONS: Final[EpochPartitions] = MappingProxyType({})


class TopicPartitionsLike(Protocol):
    """Topic and partitions as in records."""

    topic_id: bytes
    partitions: list[int]


class NamedPartitions(Protocol):
    """Topic and partitions as in the messages of classic members."""

    topic: str
    partitions: list[int]


def partitions_of(topics: Iterable[TopicPartitionsLike]) -> Partitions:
    """Topic id -> partitions, without topics that have none."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in paced(topics) if topic.partitions}


def named_partitions(topics: Iterable[NamedPartitions], view: TopicView) -> dict[bytes, frozenset[int]]:
    """Topic id -> partitions, of existing topics. A client may name a topic repeatedly, each time
    with other partitions."""
    found: dict[bytes, set[int]] = {}
    for topic in paced(topics):
        topic_id = view.id_of(topic.topic)
        if topic_id is not None:
            found.setdefault(topic_id, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def plain(partitions: EpochPartitions) -> dict[bytes, frozenset[int]]:
    """Topic id -> partitions, without the epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in paced(partitions.items())}


def with_epochs(partitions: Sequence[int], epochs: Sequence[int] | None, member_epoch: int) -> dict[int, int]:
    """Partition -> epoch of a record. Those of brokers before 4.3 carry none: the member's own
    stands in."""
    if epochs is None or len(epochs) != len(partitions):
        epochs = [member_epoch] * len(partitions)
    return dict(zip(partitions, epochs, strict=True))
