"""Apache Kafka's tools on topics with replicas: what is under-replicated, a throttled reassignment, preferred leaders,
log dirs of several nodes; and a scrape in which a replica is not counted twice."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.load import PARTITIONS, Load
from tests.crash.sited import create, described, start_sites, wait_for_in_sync
from tests.crash.test_failed_disk import scrape
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.timeout(300),
]

TOOLS = "org.apache.kafka.tools"
TOPIC = "copied"


def tool(broker: KBroker, name: str, *arguments: str) -> str:
    return run_tool(f"{TOOLS}.{name}", "--bootstrap-server", broker.bootstrap, *arguments).stdout


def value(scraped: str, metric: str) -> float:
    (line,) = (line for line in scraped.splitlines() if line.startswith(f"{metric} "))
    return float(line.split()[1])


def log_dirs(broker: KBroker) -> dict[int, dict[str, Any]]:
    """Each node's log dirs that hold the topic, by node."""
    output = tool(broker, "LogDirsCommand", "--describe", "--topic-list", TOPIC)
    (line,) = (line for line in output.splitlines() if line.startswith("{"))
    return {
        node["broker"]: {one["logDir"]: one for one in node["logDirs"] if one["partitions"]}
        for node in json.loads(line)["brokers"]
    }


def test_the_tools_see_and_move_replicas(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    broker, dirs = start_sites(broker_factory, tmp_path, 2, {"replica.lag.time.max.ms": "1000"})
    create(broker, TOPIC, PARTITIONS, 2)
    load = Load(broker.bootstrap, TOPIC, {"acks": "1", "enable.idempotence": False})
    load.start()
    follower = next(child for title, child in broker.children().items() if title.endswith("io 1"))
    led_by_first = [index for index, (leader, _, _) in described(broker, TOPIC).items() if leader == 1]
    try:
        load.wait_for_acks()
        follower.suspend()
        deadline = time.monotonic() + 60
        while not all(len(described(broker, TOPIC)[index][2]) == 1 for index in led_by_first):
            assert time.monotonic() < deadline, broker.logs()
            time.sleep(0.05)
        told = tool(broker, "TopicCommand", "--describe", "--under-replicated-partitions")
        assert all(f"Partition: {index}\tLeader: 1\tReplicas: 1,2\tIsr: 1" in told for index in led_by_first)
        assert value(scrape(broker), "kafka_server_replicamanager_underreplicatedpartitions") >= len(
            led_by_first
        )
    finally:
        follower.resume()
        load.stop()
    wait_for_in_sync(broker, TOPIC, 2)
    assert TOPIC not in tool(broker, "TopicCommand", "--describe", "--under-replicated-partitions")
    scraped = scrape(broker)
    assert value(scraped, f'kafka_server_brokertopicmetrics_messagesin_total{{topic="{TOPIC}"}}') == sum(
        load.attempted.values()
    )
    found = log_dirs(broker)
    assert {node: list(here) for node, here in found.items()} == {1: [str(dirs[0])], 2: [str(dirs[1])]}
    _reassign(broker, tmp_path, [2, 1])
    assert [replicas for _, replicas, _ in described(broker, TOPIC).values()] == [[2, 1]] * PARTITIONS
    tool(broker, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert {leader for leader, _, _ in described(broker, TOPIC).values()} == {2}
    _reassign(broker, tmp_path, [1])
    assert list(log_dirs(broker)[1]) == [str(dirs[0])]
    assert not log_dirs(broker)[2]
    broker.stop()


def _reassign(broker: KBroker, folder: Path, nodes: list[int]) -> None:
    """Throttled, and verified, which takes the throttle away."""
    plan = folder / "plan.json"
    wishes = [{"topic": TOPIC, "partition": index, "replicas": nodes} for index in range(PARTITIONS)]
    plan.write_text(json.dumps({"version": 1, "partitions": wishes}))
    command = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    told = tool(broker, *command, "--execute", "--throttle", "50000000")
    assert "The inter-broker throttle limit was set to 50000000 B/s" in told
    deadline = time.monotonic() + 60
    while "is still in progress" in (told := tool(broker, *command, "--verify")):
        assert time.monotonic() < deadline, told
    assert told.count("is completed.") == PARTITIONS
    assert "Clearing broker-level throttles" in told
    assert "Clearing topic-level throttles" in told
