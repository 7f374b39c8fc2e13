"""The topics of this broker: what exists, where it lies, who writes it. Pure: no I/O, no clock.

Every change is planned against the catalogue, stored, and only then applied here (see `topic_change.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kbroker.control.topic_name import INTERNAL
from kbroker.ipc.messages import PartitionImage, TopicImage


@dataclass(slots=True)
class Partition:
    """One partition. slot and generation name it between processes; worker is the IO worker that writes it."""

    topic: str
    index: int
    log_dir: str
    slot: int
    generation: int
    leader_epoch: int = 0
    worker: int = 0

    @property
    def folder(self) -> str:
        """Absolute path of the partition's log directory."""
        return f"{self.log_dir}/{self.topic}-{self.index}"


@dataclass(slots=True)
class Topic:
    """One topic; partitions are ordered by index, without gaps."""

    name: str
    topic_id: bytes
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether Kafka calls it internal: only coordinators write it."""
        return self.name in INTERNAL

    def image(self) -> TopicImage:
        """What network processes are told."""
        return TopicImage(
            self.name,
            self.topic_id,
            self.internal,
            tuple(PartitionImage(p.index, p.slot, p.generation, p.folder) for p in self.partitions),
        )


class Catalogue:
    """All topics by name and id. Runs in: control. Owner: its Broker, which alone changes it.

    version grows with every change; answers that are cached carry it.
    """

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self.topics: dict[str, Topic] = {}
        self.version = 0
        self._by_id: dict[bytes, Topic] = {}
        self._unified: dict[str, set[str]] = {}
        for topic in topics:
            self.put(topic)

    def put(self, topic: Topic) -> None:
        """Add a topic, or replace the one of its name."""
        if old := self.topics.get(topic.name):
            del self._by_id[old.topic_id]
        self.topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._unified.setdefault(topic.name.replace(".", "_"), set()).add(topic.name)
        self.version += 1

    def remove(self, name: str) -> Topic:
        """Drop a topic; KeyError when there is none."""
        topic = self.topics.pop(name)
        del self._by_id[topic.topic_id]
        unified = name.replace(".", "_")
        self._unified[unified].discard(name)
        if not self._unified[unified]:
            del self._unified[unified]
        self.version += 1
        return topic

    def grow(self, name: str, partitions: Iterable[Partition]) -> Topic:
        """Append partitions to a topic."""
        topic = self.topics[name]
        topic.partitions.extend(partitions)
        self.version += 1
        return topic

    def get(self, name: str | None) -> Topic | None:
        """Topic by name."""
        return None if name is None else self.topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Topic by id."""
        return self._by_id.get(topic_id)

    def partition(self, name: str | None, index: int) -> Partition | None:
        """Partition by topic name and index."""
        topic = self.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    def colliding(self, name: str) -> str | None:
        """An existing topic whose metrics would have the same name ('.' against '_'); `name` itself counts."""
        if "." not in name and "_" not in name:
            return None
        found = self._unified.get(name.replace(".", "_"))
        return min(found) if found else None

    def images(self) -> tuple[TopicImage, ...]:
        """Every topic as network processes see it."""
        return tuple(topic.image() for topic in self.topics.values())
