"""Troubles of a broker with two replica sites that fire the shipped alerts in a real Prometheus,
and their ends: a replica that hangs, an old copy of the store, a damaged compacted log.

As in test_alerts_of_a_broker only `for` is shortened."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ResourceType,
)

from kbroker.control.store.choice import WRITING
from kbroker.control.store.store import FILE_NAME
from kbroker.protocol.batch_layout import HEADER_BYTES
from tests.conftest import _run
from tests.crash.sited import create, described, start_sites, wait_for_in_sync
from tests.peer.compaction import leave_dirt
from tests.peer.configs import set_configs
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SETTINGS = {
    "replica.lag.time.max.ms": "1000",
    "log.cleaner.backoff.ms": "500",
}
LAGGING = {"KbrokerUnderReplicated", "KbrokerUnderMinIsr"}
WAIT_S = 120.0
FIRST_SEGMENT = "00000000000000000000.log"


@dataclass(frozen=True)
class Sited:
    """A broker whose log dirs are a site each."""

    node: KBroker
    dirs: list[Path]


@pytest.fixture(scope="module")
def sited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sited]:
    folder = tmp_path_factory.mktemp("sited")
    running: list[Iterator[KBroker]] = []

    def run(settings: dict[str, str]) -> KBroker:
        running.append(_run(KBroker(folder, settings)))
        return next(running[-1])

    yield Sited(*start_sites(run, folder, 2, SETTINGS))
    next(running[-1], None)


@pytest.fixture(scope="module")
def prometheus(sited: Sited, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), sited.node, impatient=True)
    try:
        assert until(lambda: made.has("kbroker_info"), WAIT_S)
        yield made
    finally:
        made.stop()


def fires(prometheus: Prometheus, name: str) -> bool:
    return name in prometheus.firing()


def both_copies_are_current(prometheus: Prometheus) -> bool:
    return prometheus.values('kbroker_store_copy{state="current"}') == ["1", "1"]


def send(node: KBroker, topic: str, acks: str) -> None:
    sender = Producer({"bootstrap.servers": node.bootstrap, "acks": acks, "linger.ms": 0})
    sender.produce(topic, b"value", b"key")
    assert sender.flush(120) == 0


def worker_of(node: KBroker, site: int) -> psutil.Process:
    """The IO worker of a site, by the node id of the site."""
    return next(child for title, child in node.children().items() if title.endswith(f"io {site - 1}"))


def test_a_replica_that_hangs_fires_and_resolves(sited: Sited, prometheus: Prometheus) -> None:
    node = sited.node
    create(node, "guarded", 1, 2, {"min.insync.replicas": "2"})
    wait_for_in_sync(node, "guarded", 2, WAIT_S)
    assert until(lambda: not LAGGING & prometheus.firing(), WAIT_S)
    leader = described(node, "guarded")[0][0]
    follower = worker_of(node, 3 - leader)
    follower.suspend()
    try:
        send(node, "guarded", acks="1")  # what the follower lacks now
        assert until(lambda: prometheus.firing() >= LAGGING, WAIT_S), prometheus.firing()
    finally:
        follower.resume()
    assert until(lambda: not LAGGING & prometheus.firing(), WAIT_S), node.logs()


def test_an_old_copy_of_the_store_fires_until_it_is_copied_again(
    sited: Sited, prometheus: Prometheus
) -> None:
    """Another program keeps the copy locked while a topic is created, and something is in the way
    of the next copy."""
    assert until(lambda: both_copies_are_current(prometheus), WAIT_S)
    copy = sited.dirs[1] / FILE_NAME
    obstacle = Path(f"{copy}{WRITING}")
    obstacle.mkdir()
    try:
        with closing(sqlite3.connect(copy, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            create(sited.node, "unseen", 1, 1)
        assert until(lambda: fires(prometheus, "KbrokerStoreCopyStale"), WAIT_S), sited.node.logs()
    finally:
        obstacle.rmdir()
    assert until(lambda: not fires(prometheus, "KbrokerStoreCopyStale"), WAIT_S), sited.node.logs()
    assert until(lambda: both_copies_are_current(prometheus), WAIT_S)


def test_a_damaged_compacted_log_fires_until_its_topic_is_deleted(
    sited: Sited, prometheus: Prometheus
) -> None:
    leave_dirt(sited.node.bootstrap, "damaged", **{"min.compaction.lag.ms": "86400000"})
    (segment,) = [path for site in sited.dirs for path in site.glob(f"damaged-0/{FIRST_SEGMENT}")]
    with segment.open("r+b") as file:
        records = segment.stat().st_size - HEADER_BYTES
        assert records > 0
        file.seek(HEADER_BYTES)
        file.write(b"\xff" * records)
    assert not fires(prometheus, "KbrokerUncleanable")
    set_configs(sited.node.bootstrap, ResourceType.TOPIC, "damaged", {"min.compaction.lag.ms": "0"})
    assert until(lambda: fires(prometheus, "KbrokerUncleanable"), WAIT_S), sited.node.logs()
    admin = AdminClient({"bootstrap.servers": sited.node.bootstrap})
    admin.delete_topics(["damaged"])["damaged"].result(120)
    assert until(lambda: not fires(prometheus, "KbrokerUncleanable"), WAIT_S), sited.node.logs()
