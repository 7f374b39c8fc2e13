"""The topics of this broker: partitions, their log dirs and IO workers. Pure: no I/O, no clock.

Every change is planned against the catalogue, stored, and only then applied here (see
`topic_change.py`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec import Struct, field
from msgspec.structs import replace

from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.ipc.messages import PartitionImage, TopicImage


class Replica(Struct, eq=False):
    """One log of a partition. slot and generation name it between processes; worker is the IO
    worker that writes it.

    in_sync: it may be elected. joining: the leader waits for it already, it may not be elected yet.
    caught_up_ns: CLOCK_MONOTONIC when it was last seen to have all of its leader's records."""

    topic: str
    index: int
    log_dir: str
    slot: int
    generation: int
    worker: int = 0
    in_sync: bool = True
    joining: bool = False
    caught_up_ns: int = 0

    @property
    def folder(self) -> str:
        """Absolute path of the log's folder."""
        return f"{self.log_dir}/{self.topic}-{self.index}"


@dataclass(slots=True, init=False, eq=False)
class Partition:
    """One partition: its replicas, the preferred leader first, and the leading one.

    has_leader: False when no replica that may lead is there; `leader` is the last one then. adding,
    removing: replicas that a reassignment adds and removes. log_dir, slot, generation and worker
    are the leader's."""

    topic: str
    index: int
    replicas: list[Replica]
    leader: Replica
    leader_epoch: int
    has_leader: bool
    adding: list[Replica]
    removing: list[Replica]

    def __init__(
        self,
        topic: str,
        index: int,
        log_dir: str,
        slot: int,
        generation: int,
        leader_epoch: int = 0,
        worker: int = 0,
    ) -> None:
        """A partition of one replica; more may be put into `replicas`."""
        self.topic = topic
        self.index = index
        self.leader = Replica(topic, index, log_dir, slot, generation, worker)
        self.replicas = [self.leader]
        self.leader_epoch = leader_epoch
        self.has_leader = True
        self.adding = []
        self.removing = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self._key() == other._key()

    def _key(self) -> tuple[object, ...]:
        logs = [(r.log_dir, r.slot, r.generation, r.worker, r.in_sync) for r in self.replicas]
        return self.topic, self.index, self.leader_epoch, self.slot, logs

    def with_moved(self, replica: Replica, log_dir: str) -> "Partition":
        """A copy of the partition with one of its replicas in another log directory."""
        moved = replace(replica, log_dir=log_dir)
        copy = Partition(self.topic, self.index, log_dir, self.slot, self.generation, self.leader_epoch)
        copy.replicas, copy.adding, copy.removing = (
            [moved if one is replica else one for one in listed]
            for listed in (self.replicas, self.adding, self.removing)
        )
        copy.leader = moved if self.leader is replica else self.leader
        copy.has_leader = self.has_leader
        return copy

    def image(self) -> PartitionImage:
        """The image for other processes."""
        leader, replicas = self.leader, self.replicas
        in_sync = int(leader.in_sync)
        followers: tuple[int, ...] = ()
        if len(replicas) > 1 or leader is not replicas[0]:
            in_sync = sum(replica.in_sync for replica in replicas)
            followers = tuple(replica.slot for replica in replicas if replica is not leader)
        return PartitionImage(
            self.index,
            leader.slot,
            leader.generation,
            leader.folder,
            in_sync if self.has_leader else 0,
            followers,
            leader is replicas[0],
        )

    @property
    def replicated(self) -> bool:
        """Whether there is more than one replica."""
        return len(self.replicas) > 1

    @property
    def slot(self) -> int:
        return self.leader.slot

    @property
    def generation(self) -> int:
        return self.leader.generation

    @property
    def log_dir(self) -> str:
        return self.leader.log_dir

    @property
    def worker(self) -> int:
        return self.leader.worker

    @property
    def folder(self) -> str:
        """Absolute path of the leader's folder."""
        return self.leader.folder


class Topic(Struct):
    """One topic; partitions are ordered by index, without gaps."""

    name: str
    topic_id: bytes
    partitions: list[Partition] = field(default_factory=list)

    @property
    def internal(self) -> bool:
        """Whether the topic is internal in Kafka: only coordinators write it."""
        return self.name in INTERNAL

    def image(self) -> TopicImage:
        """The image for network processes."""
        return TopicImage(
            self.name,
            self.topic_id,
            self.internal,
            tuple(p.image() for p in self.partitions),
        )


class Catalogue:
    """All topics by name and id. Runs in: control. Owner: its Broker; only it changes it.

    version grows with every change. on_change: called then.
    """

    def __init__(self, topics: Iterable[Topic] = (), on_change: Callable[[], None] = lambda: None) -> None:
        self.topics: dict[str, Topic] = {}
        self.version = 0
        self._on_change = on_change
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
        self.changed()

    def remove(self, name: str) -> Topic:
        """Drop a topic; KeyError when there is none."""
        topic = self.topics.pop(name)
        del self._by_id[topic.topic_id]
        unified = name.replace(".", "_")
        self._unified[unified].discard(name)
        if not self._unified[unified]:
            del self._unified[unified]
        self.changed()
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
        """An existing topic whose metrics would have the same name ('.' against '_'); `name` itself
        counts."""
        if "." not in name and "_" not in name:
            return None
        found = self._unified.get(name.replace(".", "_"))
        return min(found) if found else None

    def replicas(self) -> Iterator[Replica]:
        """Every replica of every partition."""
        for partition in self.partitions():
            yield from partition.replicas

    def changed(self) -> None:
        """Topics, leaders or in-sync sets have changed: cached answers are out of date."""
        self.version += 1
        self._on_change()
