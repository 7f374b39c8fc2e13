"""Further troubles of a real broker that fire the shipped alerts in a real Prometheus, and their
ends: a stalled disk, stuck groups, a process without a core, a certificate that ends, a full listen
queue.

As in test_alerts_of_a_broker only `for` is shortened, and the end of a trouble that a rate
remembers is that of the expression with a shorter window."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from loadtest.faults.preload import NoPreload, Preload
from tests.certificates import dated
from tests.conftest import _run
from tests.http.evicted import evict
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, expression_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STALL_MS = 300
RECORDS = 12_000
"""More than the lag that KbrokerLagGrows accepts."""
COLD_BYTES = 20_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("troubled")


@pytest.fixture(scope="module")
def disk(folder: Path) -> Preload:
    """Slows the disk of the broker."""
    try:
        return Preload(folder / "preload")
    except NoPreload as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def node(folder: Path, disk: Preload) -> Iterator[KBroker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certify(folder, 60),
    }
    made = KBroker(folder, settings)
    made.environment.update(disk.environment())
    running = _run(made)
    next(running)
    yield made
    disk.slow_disk(0)
    next(running, None)


@pytest.fixture(scope="module")
def prometheus(node: KBroker, folder: Path) -> Iterator[Prometheus]:
    made = Prometheus(folder, node, impatient=True)
    try:
        assert until(lambda: made.has("kbroker_info"), 120)
        yield made
    finally:
        made.stop()


def certify(folder: Path, days: int) -> str:
    """A key store whose certificate ends in so many days, in place of an earlier one."""
    now = datetime.now(UTC)
    dated(folder, "localhost", now - timedelta(days=1), now + timedelta(days=days))
    new = folder / "store.new"
    new.write_text((folder / "localhost.key").read_text() + (folder / "localhost.crt").read_text())
    new.replace(folder / "store.pem")
    return str(folder / "store.pem")


def topic_of(node: KBroker, name: str, **settings: str) -> str:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(120)
    return name


def send(node: KBroker, topic: str, count: int = 1, size: int = 10) -> None:
    sender = Producer({"bootstrap.servers": node.bootstrap, "acks": "all", "linger.ms": 5})
    for _ in range(count):
        sender.produce(topic, bytes(size))
        sender.poll(0)
    assert sender.flush(120) == 0


def commit(node: KBroker, group: str, topic: str, offset: int) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": group}
    with closing(Consumer(settings)) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)


def fires(prometheus: Prometheus, name: str) -> bool:
    return name in prometheus.firing()


def test_a_stalled_disk_fires_and_resolves(node: KBroker, prometheus: Prometheus, disk: Preload) -> None:
    topic = topic_of(node, "synced", flush_messages="1")
    recent = expression_of("KbrokerSyncSlow", ("[5m]", "[10s]"))

    def fast() -> bool:
        send(node, topic)
        return not prometheus.has(recent)

    def stalled() -> bool:
        send(node, topic)
        return fires(prometheus, "KbrokerSyncSlow") and prometheus.has(recent)

    assert until(fast, 120)
    disk.slow_disk(STALL_MS)
    assert until(stalled, 120)
    disk.slow_disk(0)
    assert until(fast, 120)


def test_a_stuck_group_fires_and_resolves(node: KBroker, prometheus: Prometheus) -> None:
    topic = topic_of(node, "stuck")
    commit(node, "stuck", topic, 0)
    assert until(lambda: prometheus.has('kbroker_group_lag_sum{group="stuck"} == 0'), 120)
    send(node, topic, RECORDS)
    commit(node, "stuck", topic, 1)  # the group is in use
    assert until(lambda: fires(prometheus, "KbrokerLagGrows"), 120)
    commit(node, "stuck", topic, RECORDS)
    assert until(lambda: not fires(prometheus, "KbrokerLagGrows"), 120)


def test_a_group_whose_records_left_memory_fires_and_resolves(node: KBroker, prometheus: Prometheus) -> None:
    topic = topic_of(node, "left")
    send(node, topic, COLD_BYTES // 100_000, 100_000)
    commit(node, "late", topic, 0)
    assert until(lambda: prometheus.has('kbroker_group_offset{group="late"} == 0'), 120)
    commit(node, "late", topic, 1)  # the group is in use
    if not evict(node.data_dir.glob(f"{topic}-0/*.log")):
        pytest.skip("this file system keeps the log in memory")
    assert until(lambda: fires(prometheus, "KbrokerLeavesCache"), 120)
    commit(node, "late", topic, COLD_BYTES // 100_000)
    assert until(lambda: not fires(prometheus, "KbrokerLeavesCache"), 120)


def test_a_process_without_a_core_fires_and_resolves(node: KBroker, prometheus: Prometheus) -> None:
    recent = expression_of("KbrokerLoopLate", ("[5m]", "[10s]"))
    assert until(lambda: not prometheus.has(recent), 120)
    process = next(child for title, child in node.children().items() if "network 0" in title)
    ended = Event()

    def starve() -> None:
        while not ended.is_set():
            process.suspend()
            ended.wait(0.3)
            process.resume()
            ended.wait(0.1)

    thread = Thread(target=starve)
    thread.start()
    try:
        assert until(lambda: fires(prometheus, "KbrokerLoopLate") and prometheus.has(recent), 120)
    finally:
        ended.set()
        thread.join()
        assert process.status() != psutil.STATUS_STOPPED
    assert until(lambda: not prometheus.has(recent), 120)


def test_a_certificate_that_ends_soon_fires_until_it_is_replaced(
    node: KBroker, prometheus: Prometheus, folder: Path
) -> None:
    assert until(lambda: prometheus.has("kbroker_tls_certificate_expiry_timestamp_seconds"), 120)
    assert not fires(prometheus, "KbrokerCertificateEnds")
    certify(folder, 7)
    assert until(lambda: fires(prometheus, "KbrokerCertificateEnds"), 120)
    certify(folder, 60)
    assert until(lambda: not fires(prometheus, "KbrokerCertificateEnds"), 120)


def test_a_full_listen_queue_fires_and_resolves(node: KBroker, prometheus: Prometheus) -> None:
    """The counter is the host's: any listener with too small a queue fires the alert."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))

        def knock() -> bool:
            for _ in range(4):
                caller = stack.enter_context(socket.socket())
                caller.setblocking(False)
                caller.connect_ex(full.getsockname())
            return fires(prometheus, "KbrokerListenDrops")

        assert until(knock, 120)
    recent = expression_of("KbrokerListenDrops", ("[5m]", "[10s]"))
    assert until(lambda: not prometheus.has(recent), 120)
