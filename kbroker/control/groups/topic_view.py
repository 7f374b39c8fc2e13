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
    """A number that changes when a subscribed topic is created, deleted, recreated or grows. 0: no
    topic."""
    digest = blake2b(digest_size=8)
    found = False
    for name in paced(in_order(_existing(topics, view))):
        topic_id, count = view.id_of(name), view.partition_count(name)
        if topic_id is not None and count is not None:
            found = True
            digest.update(f"{name}\0{count}\0".encode() + topic_id)
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


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
