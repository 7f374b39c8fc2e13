"""Apache Kafka's tools on topics with replicas: what is under-replicated, a throttled reassignment,
preferred leaders, log dirs of several nodes; and a scrape in which a replica is not counted
twice."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.load import PARTITIONS, Load
from tests.crash.sited import create, described, start_sites, wait_for_in_sync
from tests.peer.admin_tools import admin_tool, log_dirs, reassign
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.timeout(300),
]

TOPIC = "copied"


def dirs_in_use(broker: KBroker) -> dict[int, list[str]]:
    """Each node's log dirs that hold the topic."""
    found = log_dirs(broker, TOPIC)
    return {node: [folder for folder, parts in dirs.items() if parts] for node, dirs in found.items()}


def test_the_tools_see_and_move_replicas(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    broker, dirs = start_sites(broker_factory, tmp_path, 2, {"replica.lag.time.max.ms": "6000"})
    create(broker, TOPIC, PARTITIONS, 2)
    load = Load(broker.bootstrap, TOPIC, {"acks": "1", "enable.idempotence": False})
    load.start()
    follower = next(child for title, child in broker.children().items() if title.endswith("io 1"))
    led_by_first = [index for index, (leader, _, _) in described(broker, TOPIC).items() if leader == 1]
    try:
        load.wait_for_acks()
        follower.suspend()
        deadline = time.monotonic() + 120
        while not all(len(described(broker, TOPIC)[index][2]) == 1 for index in led_by_first):
            assert time.monotonic() < deadline, broker.logs()
            time.sleep(0.05)
        reported = admin_tool(broker, "TopicCommand", "--describe", "--under-replicated-partitions")
        assert all(
            f"Partition: {index}\tLeader: 1\tReplicas: 1,2\tIsr: 1" in reported for index in led_by_first
        )
        found = scrape(broker).value("kafka_server_replicamanager_underreplicatedpartitions")
        assert found >= len(led_by_first)
    finally:
        follower.resume()
        load.stop()
    wait_for_in_sync(broker, TOPIC, 2)
    assert TOPIC not in admin_tool(broker, "TopicCommand", "--describe", "--under-replicated-partitions")
    scraped = scrape(broker)
    messages_in = scraped.value("kafka_server_brokertopicmetrics_messagesin_total", topic=TOPIC)
    assert messages_in == sum(load.attempted.values())
    assert dirs_in_use(broker) == {1: [str(dirs[0])], 2: [str(dirs[1])]}
    _reassign(broker, tmp_path, [2, 1])
    assert [replicas for _, replicas, _ in described(broker, TOPIC).values()] == [[2, 1]] * PARTITIONS
    admin_tool(broker, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert {leader for leader, _, _ in described(broker, TOPIC).values()} == {2}
    _reassign(broker, tmp_path, [1])
    assert dirs_in_use(broker) == {1: [str(dirs[0])], 2: []}
    broker.stop()


def _reassign(broker: KBroker, folder: Path, nodes: list[int]) -> None:
    """Throttled, and verified, which takes the throttle away."""
    specs = [{"topic": TOPIC, "partition": index, "replicas": nodes} for index in range(PARTITIONS)]
    begun, reported = reassign(broker, folder, specs, "--throttle", "50000000")
    assert "The inter-broker throttle limit was set to 50000000 B/s" in begun
    assert reported.count("is completed.") == PARTITIONS
    assert "Clearing broker-level throttles" in reported
    assert "Clearing topic-level throttles" in reported
