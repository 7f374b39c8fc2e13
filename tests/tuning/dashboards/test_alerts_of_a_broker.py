"""Troubles of real brokers fire the shipped alerts in a real Prometheus, and the alerts resolve
when the trouble is over.

The expressions are the shipped ones; only `for` is shortened. A rate keeps its alert for minutes
after the trouble: here the expression no longer holds with a shorter window, and a test of tier
`long` waits for the alert itself.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.clients.client_quotas import set_quotas
from tests.compat.quota_cases import entry
from tests.conftest import _run
from tests.http.evicted import evict
from tests.peer.kbroker_node import KBroker
from tests.peer.small_disk import fill, small_disk
from tests.tuning.dashboards.prometheus import Prometheus, expression_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DISK_BYTES, RAMP_BYTES = 256 << 20, 170 << 20
FILLS = {"KbrokerDiskFullSoon", "KbrokerDiskFillsFast"}
FULL = {"KbrokerProduceRefused", "KbrokerNotReady"}
COLD_RECORDS = 200
THROTTLED = 'kbroker_quota_throttled_seconds_total{client_id="etl"}'


@dataclass
class Small:
    """A broker on a small disk, which fills by a megabyte each second until it is stopped."""

    node: KBroker
    disk: Path
    stopped: threading.Event

    def ramp(self) -> None:
        with (self.disk / "ramp").open("wb", buffering=0) as file:
            while file.tell() < RAMP_BYTES and not self.stopped.wait(0.5):
                file.write(bytes(1 << 19))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    folder = tmp_path_factory.mktemp("small")
    with small_disk(folder / "disk", DISK_BYTES) as disk:
        node = KBroker(folder, {"log.dirs": str(disk / "data"), "log.segment.bytes": "4194304"})
        running = _run(node)
        next(running)
        create(node, "filled")
        made = Small(node, disk, threading.Event())
        thread = threading.Thread(target=made.ramp)
        thread.start()
        yield made
        made.stopped.set()
        thread.join()
        next(running, None)


@pytest.fixture(scope="module")
def prometheus(
    broker: KBroker, small: Small, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    create(broker, "cold")
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), broker, small.node, impatient=True)
    try:
        assert until(lambda: made.has("count(kbroker_info) == 2"), 120)
        yield made
    finally:
        made.stop()


def create(broker: KBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(120)


def producer(broker: KBroker, **settings: str | int) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **settings})


def kill(broker: KBroker) -> None:
    broker.kill9_child("network 0")


def throttle(broker: KBroker, prometheus: Prometheus) -> None:
    """A client sends 900 kB at a quota of 5 kB/s: it is throttled for minutes."""
    rates = {"consumer_byte_rate": 1e9, "request_percentage": 1e6}
    set_quotas(broker, entry({"client-id": "etl"}, producer_byte_rate=5000, **rates))
    sender = producer(broker, **{"client.id": "etl"})
    sender.produce("cold", b"small")
    assert sender.flush(120) == 0
    assert until(lambda: prometheus.has(THROTTLED), 120)
    sender.produce("cold", bytes(900_000))
    assert sender.flush(120) == 0


def send(small: Small) -> None:
    """A record; whether it is written depends on the disk."""
    sender = producer(small.node, retries=0, **{"message.timeout.ms": 2000})
    sender.produce("filled", bytes(100_000))
    sender.flush(10)


def read_all(broker: KBroker) -> bool:
    """Whether a consumer gets all records of `cold`."""
    got = 0
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "late", "auto.offset.reset": "earliest"}
    with closing(Consumer(settings | {"enable.auto.commit": "false"})) as consumer:
        consumer.subscribe(["cold"])
        deadline = time.monotonic() + 60
        while got < COLD_RECORDS and time.monotonic() < deadline:
            got += len(consumer.consume(COLD_RECORDS, 0.5))
    return got >= COLD_RECORDS


def fill_up(small: Small, prometheus: Prometheus) -> None:
    """Until the disk is full, produce is refused, and the alerts have fired."""
    fill(small.disk / "ballast")

    def refused() -> bool:
        send(small)
        return FULL | FILLS | {"KbrokerWriteErrors"} <= prometheus.firing(small.node)

    assert until(refused, 120), prometheus.firing(small.node)


def free(small: Small, prometheus: Prometheus) -> None:
    """Until the alerts have resolved; that of write errors remembers minutes."""
    for name in ("ballast", "ramp"):
        (small.disk / name).unlink(missing_ok=True)

    def accepted() -> bool:
        send(small)
        return not (FULL | FILLS) & prometheus.firing(small.node)

    assert until(accepted, 120), prometheus.firing(small.node)


def test_a_killed_process_fires_and_resolves(broker: KBroker, prometheus: Prometheus) -> None:
    assert until(lambda: prometheus.has('kbroker_process_deaths_total{role="network"} == 0'), 120)
    kill(broker)
    assert until(lambda: "KbrokerProcessDied" in prometheus.firing(broker), 120)
    assert until(lambda: "KbrokerNotReady" not in prometheus.firing(broker), 120)
    recent = expression_of("KbrokerProcessDied", ("[10m]", "[10s]"))
    assert until(lambda: not prometheus.has(recent), 120)


def test_a_throttled_client_fires_and_resolves(broker: KBroker, prometheus: Prometheus) -> None:
    assert "KbrokerClientThrottled" not in prometheus.firing(broker)
    throttle(broker, prometheus)
    assert until(lambda: "KbrokerClientThrottled" in prometheus.firing(broker), 120)
    recent = expression_of("KbrokerClientThrottled", ("[5m]", "[10s]"))
    assert until(lambda: not prometheus.has(recent), 120)


def test_a_cold_reader_fires_and_resolves(broker: KBroker, prometheus: Prometheus) -> None:
    sender = producer(broker)
    for number in range(COLD_RECORDS):
        sender.produce("cold", number.to_bytes(2) * 50_000)
    assert sender.flush(120) == 0
    if not evict(broker.data_dir.glob("cold-0/*.log")):
        pytest.skip("this file system keeps the log in memory")
    assert until(lambda: prometheus.has('kbroker_topic_out_bytes_total{topic="cold"}'), 120)
    assert "KbrokerReadsFromDisk" not in prometheus.firing(broker)
    assert read_all(broker)
    assert until(lambda: "KbrokerReadsFromDisk" in prometheus.firing(broker), 120)

    def warm_reads_prevail() -> bool:
        assert read_all(broker)
        return "KbrokerReadsFromDisk" not in prometheus.firing(broker)

    assert until(warm_reads_prevail, 120)


def test_a_disk_that_fills_and_is_full_fires_and_resolves(small: Small, prometheus: Prometheus) -> None:
    assert until(lambda: prometheus.firing(small.node) >= FILLS, 120)  # a minute of samples
    assert not FULL & prometheus.firing(small.node)
    small.stopped.set()
    fill_up(small, prometheus)
    free(small, prometheus)
    recent = expression_of("KbrokerWriteErrors", ("[5m]", "[10s]"))
    assert until(lambda: not prometheus.has(recent), 120)


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_alerts_on_rates_resolve_when_their_window_is_over(
    broker: KBroker, small: Small, prometheus: Prometheus
) -> None:
    small.stopped.set()
    died, throttled = {"KbrokerProcessDied"}, {"KbrokerClientThrottled"}
    throttle(broker, prometheus)
    kill(broker)
    fill_up(small, prometheus)
    free(small, prometheus)
    assert until(lambda: died | throttled <= prometheus.firing(broker), 120)
    assert "KbrokerWriteErrors" in prometheus.firing(small.node)
    assert until(lambda: "KbrokerWriteErrors" not in prometheus.firing(small.node), 400)
    assert until(lambda: not (died | throttled) & prometheus.firing(broker), 700)
