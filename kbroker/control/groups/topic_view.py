"""The group coordinator's view of topics, provided by the controller's catalogue."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Protocol

from kbroker.protocol.slices import in_order, paced


class TopicView(Protocol):
    """Topics as they are now. Answers may change between two operations, never within one."""

    @property
    def version(self) -> int:
        """Grows with every change of topics."""

    def id_of(self, name: str) -> bytes | None:
        """Topic id of a name, None when there is no such topic."""

    def name_of(self, topic_id: bytes) -> str | None:
        """Topic name of an id, None when there is no such topic."""

    def partition_count(self, name: str) -> int | None:
        """Number of partitions, None when there is no such topic."""

    def names(self) -> Iterable[str]:
        """Every topic, internal ones included."""


def metadata_hash(topics: Iterable[str], view: TopicView) -> int:
    """A number that changes when a subscribed topic is created, deleted, recreated or grows: a sum
    of numbers of the topics. 0: no topic."""
    return sum_of(sum(topic_hash(name, view) for name in paced(topics)))


def topic_hash(name: str, view: TopicView) -> int:
    """The number of one topic in `metadata_hash`; 0 when there is no such topic."""
    topic_id, count = view.id_of(name), view.partition_count(name)
    if topic_id is None or count is None:
        return 0
    digest = blake2b(f"{name}\0{count}\0".encode() + topic_id, digest_size=8).digest()
    return int.from_bytes(digest, "big")


def sum_of(hashes: int) -> int:
    """A sum of `topic_hash`, as a signed number of 64 bits."""
    return (hashes + (1 << 63)) % (1 << 64) - (1 << 63)


def topic_ids(topics: Iterable[str], view: TopicView) -> Mapping[bytes, int]:
    """Topic id -> number of partitions, of those topics that exist."""
    found: dict[bytes, int] = {}
    for name in paced(in_order(_existing(topics, view))):
        topic_id, count = view.id_of(name), view.partition_count(name)
        if topic_id is not None and count is not None:
            found[topic_id] = count
    return found


def _existing(topics: Iterable[str], view: TopicView) -> list[str]:
    return [name for name in paced(topics) if view.id_of(name) is not None]
