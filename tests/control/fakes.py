"""A broker's control state with fake IO workers and network processes: real SQLite, real slots, no
process."""

import logging
import shutil
from collections.abc import Awaitable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.control import state
from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.services import Services
from kbroker.ipc import messages as m
from kbroker.ipc.background import Background
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.link import Answered
from kbroker.ipc.shared import Shared, Sizes
from kbroker.log import files
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import NewRecord, build_batch

CLUSTER_ID = "kbrokerTestClusterIdAA"
ENDPOINT = Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)


class Ready:
    """What a call is answered, at once. Unlike a coroutine it may be left alone."""

    def __init__(self, value: Any = None, error: KafkaError | None = None) -> None:
        self._value = value
        self._error = error

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        if self._error is not None:
            raise self._error
        return self._value


_SERVICES: WeakKeyDictionary[Broker, Services] = WeakKeyDictionary()


def services_of(broker: Broker) -> Services:
    """The services of a broker; made when they are first needed."""
    if broker not in _SERVICES:
        _SERVICES[broker] = Services(broker)
    return _SERVICES[broker]


class FakeNetwork:
    """A network process that applies every image at once."""

    def __init__(self) -> None:
        self.images: list[m.Image] = []

    def call(self, body: Any) -> Awaitable[Any]:
        assert isinstance(body, m.Image)
        self.images.append(body)
        return Ready()

    def close(self) -> None:
        pass

    @property
    def topics(self) -> dict[str, m.TopicImage]:
        """What it knows by now."""
        known: dict[str, m.TopicImage] = {}
        for image in self.images:
            if image.full:
                known = {}
            known |= {topic.name: topic for topic in image.topics}
            for name in image.deleted:
                known.pop(name, None)
        return known


class FakeWorker:
    """An IO worker that keeps its promises to control: folders, slot words, one uncompressed
    segment per partition.

    refuse: errors by type of call, raised instead of an answer.
    """

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.closed = False
        self.calls: list[Any] = []
        self.opened: dict[int, m.OpenPartition] = {}
        self.refuse: dict[type, KafkaError] = {}
        self.producers: dict[int, Any] = {}  # by slot: fields of ProducerStates, or an error code
        self._asked = Background(logging.getLogger(__name__), "an answer of the fake IO worker failed")

    def call(self, body: Any) -> Awaitable[Any]:
        self.calls.append(body)
        if (error := self.refuse.get(type(body))) is not None:
            return Ready(error=error)
        answer = getattr(self, "_" + type(body).__name__, None)
        try:
            return Ready(answer(body) if answer else None)
        except KafkaError as error:
            return Ready(error=error)

    def ask(self, body: Any, answered: Answered) -> None:
        async def deliver() -> None:
            try:
                answered(m.Reply(1, await self.call(body)))
            except KafkaError as error:
                answered(m.Reply(1, None, int(error.code), error.message))

        self._asked.start(deliver())

    def close(self) -> None:
        pass

    def _OpenPartition(self, call: m.OpenPartition) -> None:  # noqa: N802
        folder = Path(call.log_dir, f"{call.topic}-{call.partition}")
        folder.mkdir(parents=True, exist_ok=True)
        self.opened[call.slot] = call
        line = self.shared.slots[call.slot]
        line[: Slot.GENERATION] = 0
        line[Slot.LEADER_EPOCH] = line[Slot.START_EPOCH] = call.leader_epoch
        line[Slot.MAX_TIMESTAMP] = -1
        (folder / files.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n1\n{call.leader_epoch} 0\n")
        Path(files.path(str(folder), 0, files.LOG)).touch()
        line[Slot.STATE] = SlotState.ONLINE

    def _ClosePartition(self, call: m.ClosePartition) -> None:  # noqa: N802
        opened = self.opened.pop(call.slot, None)
        if opened is None:
            return
        self.shared.slots[call.slot, Slot.STATE] = SlotState.DELETED
        shutil.rmtree(Path(opened.log_dir, f"{opened.topic}-{opened.partition}"))

    def _DeleteRecords(self, call: m.DeleteRecords) -> int:  # noqa: N802
        line = self.shared.slots[call.slot]
        offset = int(line[Slot.HIGH_WATERMARK]) if call.offset == -1 else call.offset
        if not 0 <= offset <= line[Slot.HIGH_WATERMARK]:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        line[Slot.LOG_START] = max(offset, line[Slot.LOG_START])
        return int(line[Slot.LOG_START])

    def _SyncLog(self, call: m.SyncLog) -> None:  # noqa: N802
        line = self.shared.slots[call.slot]
        line[Slot.DURABLE] = line[Slot.LOG_END]

    def _EpochEndOffset(self, call: m.EpochEndOffset) -> tuple[int, int]:  # noqa: N802
        line = self.shared.slots[call.slot]
        if call.leader_epoch == line[Slot.LEADER_EPOCH]:
            return call.leader_epoch, int(line[Slot.LOG_END])
        return -1, -1

    def _DescribeProducers(self, call: m.DescribeProducers) -> tuple[Any, ...]:  # noqa: N802
        found: list[Any] = []
        after, room = call.after, call.limit
        for slot in call.slots:
            known = self.producers.get(slot, ())
            if not isinstance(known, int):
                known = [each for each in known if each[0] > after][:room]
                room -= len(known)
            found.append(known)
            after = -1
            if room <= 0:
                break
        return tuple(found)

    def append(self, partition: Partition, *records: NewRecord, codec: Codec = Codec.NONE) -> None:
        """One batch at the end of the log, visible at once."""
        line = self.shared.slots[partition.slot]
        offset, epoch = int(line[Slot.LOG_END]), int(line[Slot.LEADER_EPOCH])
        batch = build_batch(records, base_offset=offset, partition_leader_epoch=epoch, codec=codec)
        with open(files.path(partition.folder, 0, files.LOG), "ab") as log:
            log.write(batch)
            size = log.tell()
        end = offset + len(records)
        for word in (
            Slot.LOG_END,
            Slot.HIGH_WATERMARK,
            Slot.LAST_STABLE,
            Slot.DURABLE,
        ):
            line[word] = end
        for word in (Slot.ACTIVE_END, Slot.HW_POSITION, Slot.LOG_BYTES):
            line[word] = size


class World:
    """A broker, its IO workers and network processes, and the settings it was made with."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, workers: int = 1, dirs: int = 1
    ) -> None:
        self.dirs = [str(folder / f"d{number}") for number in range(dirs)]
        for log_dir in self.dirs:
            Path(log_dir).mkdir(parents=True, exist_ok=True)
        self.settings = {
            "log.dirs": ",".join(self.dirs),
            "node.id": "1",
            "offsets.topic.num.partitions": "4",
            **(settings or {}),
        }
        self.directory_ids: dict[str, str] = {}
        self.clean_dirs: frozenset[str] = frozenset()
        self.sizes = Sizes(2, workers, 256, 16, 1 << 20)
        self.shared = Shared(self.sizes)
        self.broker = self.start()

    @property
    def services(self) -> Services:
        """What this broker's control has work done by."""
        return services_of(self.broker)

    def start(self) -> Broker:
        """Control starts, again or for the first time, on the same shared memory."""
        config, _ = BrokerConfig.load(self.settings)
        endpoints = {"PLAINTEXT": ENDPOINT}
        self.broker = state.build(
            self.shared,
            config,
            state.OnlineDirs(self.dirs, self.directory_ids, self.clean_dirs),
            endpoints,
            CLUSTER_ID,
        )
        self.workers = [FakeWorker(self.shared) for _ in range(self.sizes.workers)]
        for index, worker in enumerate(self.workers):
            for each in self.broker.logs_of(index):
                worker.call(self.broker.open_call(*each))
            self.broker.links.add_worker(index, worker)
        self.network = FakeNetwork()
        self.broker.links.add_network(0, self.network)
        return self.broker

    def reboot(self) -> Broker:
        """The whole broker stops and starts: fresh shared memory."""
        self.broker.close()
        self.shared = Shared(self.sizes)
        return self.start()

    @property
    def worker(self) -> FakeWorker:
        """The first IO worker."""
        return self.workers[0]


class FullStore:
    """The store of a broker, which takes no change while `full`, after the first `takes`."""

    def __init__(self, made: World, takes: int = 0) -> None:
        self.full = True
        self.takes = takes
        self._in_store = made.broker.in_store
        vars(made.broker)["in_store"] = self

    async def __call__(self, work: Any) -> Any:
        self.takes -= 1
        if self.full and self.takes < 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The broker's store failed: disk I/O error")
        return await self._in_store(work)


@contextmanager
def world(
    folder: Path, settings: Mapping[str, str] | None = None, workers: int = 1, dirs: int = 1
) -> Iterator[World]:
    """A World that is closed at the end."""
    made = World(folder, settings, workers, dirs)
    try:
        yield made
    finally:
        made.broker.close()
