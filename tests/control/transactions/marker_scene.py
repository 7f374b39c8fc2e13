"""Orders of markers between a writer that the test answers for and a log in memory."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kbroker.control.links.appender import Done
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.transactions.marker_sender import MarkerSender, MarkerWriter
from kbroker.control.transactions.offset_commits import PendingOffsetCommits
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.ports import MarkerOrder
from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError

A, B, C = ("a", 0), ("b", 1), ("c", 2)


class Writer:
    """Stands for the MarkerWriter: keeps what is to be written until the test says how it went."""

    def __init__(self) -> None:
        self.markers: list[tuple[TopicPartition, Done]] = []
        self.late: set[TopicPartition] = set()
        self.found: list[TopicPartition] = []
        self.unsafe: dict[TopicPartition, asyncio.Future[None]] = {}

    def is_safe(self, where: TopicPartition) -> bool:
        return where not in self.unsafe

    async def safe(self, where: TopicPartition) -> None:
        await self.unsafe[where]

    def submit(self, order: MarkerOrder, where: TopicPartition, done: Done) -> bool:
        if where in self.late:
            return False
        self.markers.append((where, done))
        return True

    def was_written(self, _: MarkerOrder, where: TopicPartition) -> None:
        self.found.append(where)

    async def write_order(self, order: MarkerOrder, where: TopicPartition) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(failure: KafkaError | None) -> None:
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

        self.markers.append((where, done))
        await written

    def end(self, failure: ErrorCode | None = None) -> TopicPartition:
        where, done = self.markers.pop(0)
        done(None if failure is None else KafkaError(failure))
        return where


class Scene:
    def __init__(self) -> None:
        self.writer = Writer()
        self.written: list[TopicPartition] = []
        self.completions: list[Callable[[ErrorCode], None]] = []
        made: Any = self.writer
        self.sender = MarkerSender(made, self._note, lambda _, error: self.completions.append(error))

    def _note(self, _: MarkerOrder, partitions: frozenset[TopicPartition]) -> None:
        self.written += partitions

    def send(self, *partitions: TopicPartition, name: str = "t") -> None:
        self.sender.send(MarkerOrder(name, 7, 1, 0, True, frozenset(partitions), 2))


def run(test: Callable[[Scene], Awaitable[None]]) -> None:
    async def body() -> None:
        await asyncio.wait_for(test(Scene()), 60)

    asyncio.run(body())


async def until(met: Callable[[], object]) -> None:
    while not met():
        await asyncio.sleep(0.001)


class Appends:
    """Stands for the Appender and the broker's catalogue, in which only `gone` is not."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.done: list[Done] = []
        self.ended: list[tuple[int, int, bool]] = []
        self.ends = {Slot.LOG_END: 3, Slot.HIGH_WATERMARK: 3}
        partition = Partition("a", 0, "/d", 3, 77)
        catalogue = SimpleNamespace(partition=lambda topic, _: None if topic == "gone" else partition)
        broker: Any = SimpleNamespace(
            catalogue=catalogue,
            now_ms=lambda: 5,
            slots=SimpleNamespace(word=lambda _, word: self.ends[word]),
            is_online=lambda _: True,
            topic_config=lambda _: SimpleNamespace(flush_messages=2),
        )
        self.commits = PendingOffsetCommits(lambda index: index != 9)
        made: Any = self
        self.writer = MarkerWriter(
            broker, made, "offsets", self.commits, lambda *each: self.ended.append(each)
        )

    def submit(self, partition: object, batch: bytes, done: Done) -> None:
        self.batches.append(batch)
        self.done.append(done)

    def write(self, topic: str, commit: bool = True, version: int = 2, index: int = 0) -> list[object]:
        """Submit a marker; how it ended, as far as it has."""
        ends: list[object] = []
        order = MarkerOrder("t", 7, 3, 4, commit, frozenset(), version)
        if not self.writer.submit(order, (topic, index), ends.append):
            return ["later"]
        return ends
