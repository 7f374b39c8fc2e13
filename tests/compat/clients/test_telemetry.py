"""Clients push their own metrics, and /metrics shows them: librdkafka, and Apache Kafka's Java
client and tool."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.compat.clients.conftest import SETTINGS
from tests.compat.clients.pushed_metrics import metrics_of, subscribe
from tests.conftest import RUNNING
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape
from tests.peer.tools import open_tool, run_tool

pytestmark = pytest.mark.compat

PRODUCER = "org.apache.kafka.producer."


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker to itself: a subscription is for every client that matches."""
    offered = {"kbroker.client.telemetry.enable": "true"}
    made = KBroker(tmp_path_factory.mktemp("telemetry"), SETTINGS | offered)
    RUNNING.append(made)
    made.start(timeout_s=240)
    yield made
    RUNNING.remove(made)
    made.stop()


def test_librdkafka_pushes_subscribed_metrics(node: KBroker) -> None:
    subscribe(node, "lib", metrics=PRODUCER, match="client_id=lib-.*", **{"interval.ms": "300"})
    settings = {"bootstrap.servers": node.bootstrap, "enable.metrics.push": True}
    producer = Producer({**settings, "client.id": "lib-1"})
    other = Consumer({**settings, "client.id": "other", "group.id": "telemetry"})
    other.subscribe(["telemetry"])
    other.poll(0.5)

    def pushed() -> set[str]:
        producer.produce("telemetry", b"x")
        producer.poll(0.05)
        return metrics_of(scrape(node), "lib-1")

    eventually(lambda: bool(pushed()))
    found = pushed()
    assert all(name.startswith(PRODUCER) for name in found)
    (info,) = [one for one in scrape(node).labels("kbroker_client_info") if one["client_id"] == "lib-1"]
    assert info["software_name"] == "confluent-kafka-python"
    assert info["address"] == "127.0.0.1"
    assert not metrics_of(scrape(node), "other")  # it is asked for nothing
    producer.flush(10)
    other.close()


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_jars")
def test_a_java_producer_pushes_and_kafkas_tool_sets_its_subscription(node: KBroker, tmp_path: Path) -> None:
    tool = "org.apache.kafka.tools.ClientMetricsCommand"
    at = ("--bootstrap-server", node.bootstrap)
    run_tool(
        tool,
        *at,
        *("--alter", "--name", "java", "--metrics", "*", "--interval", "500"),
        *("--match", "client_software_name=apache-kafka-java"),
    )
    described = run_tool(tool, *at, "--describe", "--name", "java").stdout
    assert "interval.ms=500" in described
    assert "java" in run_tool(tool, *at, "--list").stdout
    output = (tmp_path / "producer.log").open("wb")
    producer = open_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", node.bootstrap, "--topic", "telemetry", "--num-records", "1000000"),
        *("--record-size", "10", "--throughput", "100", "--command-property", "client.id=java-1"),
        output=output,
    )
    try:
        eventually(lambda: PRODUCER + "connection.creation.total" in metrics_of(scrape(node), "java-1"))
        (info,) = [one for one in scrape(node).labels("kbroker_client_info") if one["client_id"] == "java-1"]
        assert info["software_name"] == "apache-kafka-java"
    finally:
        producer.terminate()
        with suppress(OSError):
            producer.wait(20)
        output.close()
    run_tool(tool, *at, "--delete", "--name", "java")
    assert "java" not in run_tool(tool, *at, "--list").stdout
