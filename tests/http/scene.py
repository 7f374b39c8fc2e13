"""A broker's shared memory without its processes: topics in a directory, counters and slots filled
by the test."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.http.collector import BrokerCollector
from kbroker.http.control_view import NoAnswer
from kbroker.http.directory import Directory
from kbroker.http.health import Health
from kbroker.http.page_cache import PageCache
from kbroker.ipc import connecting
from kbroker.ipc.child import ChildContext
from kbroker.ipc.client_messages import ConnectedClients
from kbroker.ipc.http_messages import ClientMetrics, GroupSummary
from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.ipc.shared import Shared, Sizes
from kbroker.metrics.slots import Slots
from tests.peer.scrape import Scrape

NETWORK, CONTROL, IO = 0, 1, 2
SOURCES = (NETWORK, CONTROL, IO)


@dataclass
class View:
    """ControlView without a control."""

    directory: Directory = field(default_factory=Directory)
    summaries: tuple[GroupSummary, ...] = ()
    pushed: ClientMetrics = field(default_factory=lambda: ClientMetrics(0, 0, ()))
    open: ConnectedClients = field(default_factory=ConnectedClients)
    informed: threading.Event = field(default_factory=threading.Event)

    def clients(self) -> ClientMetrics:
        return self.pushed

    def connected(self) -> ConnectedClients:
        return self.open

    def groups(self) -> tuple[GroupSummary, ...]:
        return self.summaries

    def ask(self, message: object) -> object:
        raise NoAnswer("there is no control")


class Scene:
    """One network process, control, one IO worker; `now` is the clock in seconds."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, most_partitions: int = 64
    ) -> None:
        pairs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder), **(settings or {})}
        config, _ = BrokerConfig.load(pairs, {})
        self.folder = folder
        self.shared = Shared(
            Sizes(clients=2, workers=1, max_partitions=most_partitions, ring_entries=16, arena_bytes=4096)
        )
        self.view = View()
        self.view.informed.set()
        self.now = 1000.0
        self.context = ChildContext(
            role="http",
            index=0,
            process=self.shared.http_process,
            epoch=1,
            config=config,
            shared=self.shared,
            control_sockets=connecting.make(),
            handoff=None,
            cluster_id="cluster",
            log_dirs=(str(folder),),
            clean_dirs=frozenset(),
            ports={"PLAINTEXT": 9092},
        )
        self.context.control_sockets.close()
        for row in range(self.shared.process_count):
            self.shared.processes[row, ProcessLine.EPOCH] = 1
            self.shared.processes[row, ProcessLine.READY] = 1
        acceptor = 4711
        clock_ns = lambda: int(self.now * 1e9)  # noqa: E731
        self.health = Health(self.shared, self.view, acceptor, clock_ns, lambda: acceptor)
        self.page_cache = PageCache(
            self.shared, config.get_int("kbroker.metrics.partitions.max"), lambda: self.now
        )
        self.collector = BrokerCollector(
            self.context,
            self.view,
            self.health,
            self.page_cache,
            acceptor,
            lambda: self.now,
        )

    def slots(self, process: int) -> Slots:
        """Row of a process."""
        return Slots(self.shared.metrics[process])

    def topic(self, name: str, partitions: int = 1) -> list[int]:
        """A topic whose partitions are online; their slot numbers."""
        first = len(self.view.directory.partitions)
        images = []
        for index in range(partitions):
            slot = first + index
            folder = self.folder / f"{name}-{index}"
            folder.mkdir()
            images.append(PartitionImage(index, slot, 1, str(folder)))
            words = self.shared.slots[slot]
            words[Slot.STATE] = SlotState.ONLINE
            words[Slot.GENERATION] = 1
            words[Slot.MIN_IN_SYNC_REPLICAS] = 1
            words[Slot.MAX_TIMESTAMP] = -1
        topics = {topic.name: topic for topic in self.view.directory.topics}
        topics[name] = TopicImage(name, bytes(16), False, tuple(images))
        self.view.directory = Directory.of(topics)
        return list(range(first, first + partitions))

    def scrape(self) -> "Scrape":
        """What Prometheus reads."""
        return Scrape(self.collector.text().decode())
