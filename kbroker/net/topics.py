"""The network process's copy of the topics: by name and id for Python, in open-addressing tables
for kernels.

Runs in: network. Filled only from control's Image messages; between two images it does not change.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.kernels.hash_index import enter_in, remove_from
from kbroker.kernels.keyed_hash import hash64_at
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, Partition, Topic
from kbroker.protocol.slices import paced

Words = NDArray[np.int64]


class Topics:
    """Topics by name and by id. Lookups by kernels go through the tables that this class keeps.

    rows: numbers of the topics' rows in the kernels' table. on_row(number, name): is called for a
    new topic's row; on_rows(rows): when the table was replaced, with the rows of the former one.
    """

    def __init__(self, tables: NetworkTables) -> None:
        self._tables = tables
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[bytes, TopicImage] = {}
        self.by_slot: dict[int, tuple[TopicImage, PartitionImage]] = {}
        self.rows: dict[str, int] = {}
        self.on_row: Callable[[int, str], None] = lambda *_: None
        self.on_rows: Callable[[Mapping[str, int]], None] = lambda _: None
        self.version = -1
        self._rebuild(())

    def apply(
        self, topics: Iterable[TopicImage], deleted: Iterable[str], full: bool, version: int
    ) -> list[int]:
        """Apply an image; returns the slots that no topic has any more. full: the image has all
        topics; otherwise those that are new or have changed, one after the other in slices."""
        gone = self._replace_all(topics) if full else self._change(topics, deleted)
        self.version = version
        return gone

    def _replace_all(self, topics: Iterable[TopicImage]) -> list[int]:
        before = self._slots()
        self.by_name.clear()
        self.by_id.clear()
        self.by_slot.clear()
        for topic in topics:
            self._put(topic)
        self._rebuild(self.by_name.values())
        return list(before - self._slots())

    def _change(self, topics: Iterable[TopicImage], deleted: Iterable[str]) -> list[int]:
        gone = [slot for name in deleted for slot in self._remove(name)]
        for topic in paced(topics):
            kept = {(part.slot, part.generation) for part in topic.partitions}
            if (old := self.by_name.get(topic.name)) is not None:
                gone += [part.slot for part in old.partitions if (part.slot, part.generation) not in kept]
                self._remove(topic.name)
            self._put(topic)
            self._insert(topic)
        return gone

    def _slots(self) -> set[int]:
        return {part.slot for topic in self.by_name.values() for part in topic.partitions}

    def _put(self, topic: TopicImage) -> None:
        self.by_name[topic.name] = topic
        self.by_id[topic.topic_id] = topic
        self.by_slot.update((part.slot, (topic, part)) for part in topic.partitions)

    def slots_in_use(self) -> int:
        """The number of the last slot that is a partition's, plus 1."""
        return max(self.by_slot, default=-1) + 1

    def row_of(self, name: str) -> int:
        """Number of a topic's row in the kernels' table, until Context.TOPICS_VERSION grows."""
        return self.rows[name]

    def name_at(self, number: int) -> str:
        """Name of the topic of a row in the kernels' table."""
        start, length = number * 256, int(self._table[number, Topic.NAME_LENGTH])
        return bytes(self._names[start : start + length]).decode()

    def _remove(self, name: str) -> list[int]:
        """Remove a topic from all tables; returns the slots of its partitions."""
        topic = self.by_name.pop(name, None)
        if topic is None:
            return []
        if self.by_id.get(topic.topic_id) is topic:
            del self.by_id[topic.topic_id]
        row = self.rows.pop(name, None)
        self._tables.words[Context.TOPICS_VERSION] += 1
        if row is not None:
            for index in (self._name_index, self._id_index):
                remove_from(index, row)
        slots = [part.slot for part in topic.partitions]
        for slot in slots:
            self.by_slot.pop(slot, None)
        return slots

    def _rebuild(self, topics: Iterable[TopicImage]) -> None:
        """Make new tables for kernels, with room for twice the topics and partitions."""
        every = list(topics)
        self._table: Words = Topic.table(max(64, 2 * len(every)))
        count = sum(len(topic.partitions) for topic in every)
        self._partitions: Words = Partition.table(max(256, 2 * count))
        self._names: NDArray[np.uint8] = np.zeros(len(self._table) * 256, np.uint8)
        size = 1 << (4 * len(self._table) - 1).bit_length()
        self._name_index: Words = np.zeros(size, np.int64)
        self._id_index: Words = np.zeros(size, np.int64)
        former, self.rows = self.rows, {}
        self._rows_used = self._partitions_used = 0
        words = self._tables.words
        words[Context.TOPICS_VERSION] += 1
        words[Context.TOPICS] = self._table.ctypes.data
        words[Context.PARTITIONS] = self._partitions.ctypes.data
        words[Context.NAME_INDEX] = self._name_index.ctypes.data
        words[Context.ID_INDEX] = self._id_index.ctypes.data
        words[Context.INDEX_MASK] = size - 1
        for topic in every:
            self._enter(topic)
        self.on_rows(former)

    def _insert(self, topic: TopicImage) -> None:
        """Add a topic to the tables for kernels."""
        full = self._rows_used == len(self._table)
        if full or self._partitions_used + len(topic.partitions) > len(self._partitions):
            self._rebuild(self.by_name.values())
        else:
            self.on_row(self._enter(topic), topic.name)

    def _enter(self, topic: TopicImage) -> int:
        """The number of a topic's new row."""
        number = self._rows_used
        self._rows_used += 1
        self.rows[topic.name] = number
        first = self._partitions_used
        self._partitions_used += len(topic.partitions)
        for at, part in enumerate(topic.partitions, first):
            self._partitions[at] = part.slot, part.generation, 0
        name = topic.name.encode()
        start = number * 256
        self._names[start : start + len(name)] = np.frombuffer(name, np.uint8)
        high, low = np.frombuffer(topic.topic_id, np.int64).tolist()
        row = self._table[number]
        row[Topic.NAME] = self._names.ctypes.data + start
        row[Topic.NAME_LENGTH] = len(name)
        row[Topic.ID_HIGH] = high
        row[Topic.ID_LOW] = low
        row[Topic.PARTITIONS] = first
        row[Topic.COUNT] = len(topic.partitions)
        row[Topic.INTERNAL] = topic.internal
        address = int(row[Topic.NAME])
        hashed = hash64_at(address, len(name), int(self._tables.words[Context.NAME_KEY]))
        enter_in(self._name_index, hashed, number)
        enter_in(self._id_index, high ^ low, number)
        return number

    @property
    def capacity(self) -> int:
        """Rows of the kernels' table."""
        return len(self._table)
