"""Troubles of real brokers that begin and end when a test says so, each with its alerts."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from loadtest.faults.preload import Preload
from tests.compat.clients.client_quotas import set_quotas
from tests.compat.quota_cases import entry
from tests.peer.kbroker_node import KBroker
from tests.peer.side_work import SideWork
from tests.peer.small_disk import fill

END_S = 180.0


class Trouble:
    """Work in a thread before, in and after the trouble. The thread starts with `working`."""

    alerts: ClassVar[tuple[str, ...]]
    every_s: ClassVar[float]
    before: ClassVar[str]
    """An expression that has a value once Prometheus sees the broker well."""

    def __init__(self, broker: KBroker) -> None:
        self.broker = broker
        self._is_bad = self._is_over = False
        self._turn = threading.Event()

    def work(self, is_bad: bool) -> None:
        """A turn of it."""
        raise NotImplementedError

    def begin(self) -> None:
        self._is_bad = True
        self._turn.set()

    def cure(self) -> None:
        self._is_bad = False
        self._turn.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """It works until the end of the `with`. Raises what a turn has raised."""
        side = SideWork(self._turns)
        try:
            yield
        finally:
            self._is_over, self._is_bad = True, False
            self._turn.set()
            side.end(END_S)

    def _turns(self) -> None:
        while not self._is_over:
            self._turn.clear()
            self.work(self._is_bad)
            self._turn.wait(self.every_s)

    def _create(self, topic: str, **settings: str) -> None:
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(120)

    def _producer(self, **settings: str | int) -> Producer:
        return Producer({"bootstrap.servers": self.broker.bootstrap, "acks": "all", **settings})


class KilledProcess(Trouble):
    """A network process is killed again and again."""

    alerts = ("KbrokerProcessDied",)
    every_s = 10.0
    before = 'kbroker_process_deaths_total{role="network"} == 0'

    def work(self, is_bad: bool) -> None:
        if is_bad:
            self.broker.kill9_running("network 0")


class FullDisk(Trouble):
    """All bytes of a small disk are taken, while a producer sends."""

    alerts = (
        "KbrokerProduceRefused", "KbrokerWriteErrors", "KbrokerDiskFillsFast", "KbrokerNotReady", "KbrokerDiskFullSoon",
    )  # fmt: skip
    every_s = 2.0
    before = "kbroker_produce_refused_partitions == 0 and on (instance) kbroker_ready == 1"

    def __init__(self, broker: KBroker, ballast: Path) -> None:
        super().__init__(broker)
        self._ballast = ballast
        self._create("filled")
        self._sender = self._producer(retries=0, **{"message.timeout.ms": 2000})

    def work(self, is_bad: bool) -> None:
        if is_bad:
            fill(self._ballast, "ab")
        else:
            self._ballast.unlink(missing_ok=True)
        self._sender.produce("filled", bytes(100_000 if is_bad else 100))
        self._sender.flush(10)


class ThrottledClient(Trouble):
    """A client sends more than its quota all the time."""

    alerts = ("KbrokerClientThrottled",)
    every_s = 0.5
    before = 'kbroker_quota_throttled_seconds_total{client_id="etl"} == 0'

    def __init__(self, broker: KBroker) -> None:
        super().__init__(broker)
        self._create("throttled")
        self._rate = 0.0
        self._sender = self._producer(**{"client.id": "etl"})

    def work(self, is_bad: bool) -> None:
        rate = 5000.0 if is_bad else 1e9
        if rate != self._rate:
            others = {"consumer_byte_rate": 1e9, "request_percentage": 1e6}
            set_quotas(self.broker, entry({"client-id": "etl"}, producer_byte_rate=rate, **others))
            self._rate = rate
        self._sender.produce("throttled", bytes(20_000 if is_bad else 10))
        self._sender.flush(60)


class StuckGroup(Trouble):
    """A group in use commits no more, while a producer sends."""

    alerts = ("KbrokerLagGrows",)
    every_s = 10.0
    before = 'kbroker_group_lag_sum{group="stuck"} == 0'

    def __init__(self, broker: KBroker) -> None:
        super().__init__(broker)
        self._create("stuck")
        self._sent = 0
        self._commit(0)

    def work(self, is_bad: bool) -> None:
        if is_bad:
            sender = self._producer(**{"linger.ms": 5})
            count = 200 if self._sent else 12_000  # more than the lag that the alert accepts
            for _ in range(count):
                sender.produce("stuck", b"unread")
            assert sender.flush(120) == 0
            if not self._sent:
                self._commit(1)  # the group is in use
            self._sent += count
        elif self._sent:
            self._commit(self._sent)

    def _commit(self, offset: int) -> None:
        settings = {"bootstrap.servers": self.broker.bootstrap, "group.id": "stuck"}
        with closing(Consumer(settings)) as consumer:
            consumer.commit(offsets=[TopicPartition("stuck", 0, offset)], asynchronous=False)


class StalledDisk(Trouble):
    """Each fdatasync takes a third of a second. The broker was started with the library of
    `disk`."""

    alerts = ("KbrokerSyncSlow",)
    every_s = 0.5
    before = "kbroker_flush_seconds_count > 0"
    stall_ms = 300

    def __init__(self, broker: KBroker, disk: Preload) -> None:
        super().__init__(broker)
        self._create("synced", flush_messages="1")
        self._disk = disk
        self._sender = self._producer()

    def work(self, is_bad: bool) -> None:
        self._disk.slow_disk(self.stall_ms if is_bad else 0)
        self._sender.produce("synced", b"x")
        assert self._sender.flush(60) == 0
