"""What the group coordinator needs to know of topics; control's catalogue provides it."""

from collections.abc import Iterable
from typing import Protocol


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
