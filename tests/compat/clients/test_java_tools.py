"""Apache Kafka's own command-line tools, unmodified: verifiable and perf clients, topics, configs,
offsets, cluster."""

import json
import re

import pytest

from tests.compat.clients.conftest import Cluster, NameFactory, TopicFactory
from tests.peer.tools import run_tool

pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.parametrize("cluster", ["kbroker"], indirect=True),
]

TOOLS = "org.apache.kafka.tools"


def tool(cluster: Cluster, name: str, *arguments: str, check: bool = True) -> str:
    """What a tool prints when it is pointed at the cluster."""
    name = name if "." in name else f"{TOOLS}.{name}"
    done = run_tool(name, "--bootstrap-server", cluster.bootstrap, *arguments, check=check)
    return done.stdout + done.stderr


def events(output: str) -> dict[str, list[dict[str, object]]]:
    """The JSON lines of a verifiable client, by their names."""
    found: dict[str, list[dict[str, object]]] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            found.setdefault(event["name"], []).append(event)
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_clients_agree(
    cluster: Cluster, topic: TopicFactory, fresh: NameFactory, protocol: str
) -> None:
    name = topic(2)
    output = tool(cluster, "VerifiableProducer", "--topic", name, "--max-messages", "1000", "--acks", "-1")
    produced = events(output)
    assert len(produced["producer_send_success"]) == 1000
    assert produced["tool_data"][0]["acked"] == 1000
    consumed = events(
        tool(
            cluster,
            "VerifiableConsumer",
            *("--topic", name, "--group-id", fresh("verifiable"), "--group-protocol", protocol),
            *("--max-messages", "1000", "--reset-policy", "earliest"),
        )
    )
    assert sum(int(str(each["count"])) for each in consumed["records_consumed"]) == 1000
    assert all(each["success"] for each in consumed["offsets_committed"])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_perf_clients_move_everything(cluster: Cluster, topic: TopicFactory, codec: str) -> None:
    name = topic(3)
    output = tool(
        cluster,
        "ProducerPerformance",
        *("--topic", name, "--num-records", "20000", "--record-size", "200", "--throughput", "-1"),
        *("--command-property", f"compression.type={codec}"),
    )
    assert re.search(r"^20000 records sent", output, re.MULTILINE)
    output = tool(cluster, "ConsumerPerformance", "--topic", name, "--num-records", "20000")
    assert int(output.splitlines()[-1].split(", ")[4]) >= 20000


def test_end_to_end_latency_sees_its_records(cluster: Cluster, topic: TopicFactory) -> None:
    options = ("--num-records", "100", "--producer-acks", "all", "--record-size", "64")
    output = tool(cluster, "EndToEndLatency", "--topic", topic(), *options)
    assert "Percentiles" in output


def test_kafka_topics_runs_a_topics_life(cluster: Cluster, fresh: NameFactory) -> None:
    name = fresh("cli")
    create = ("--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=1000000")
    assert f"Created topic {name}." in tool(cluster, "TopicCommand", *create)
    assert "already exists" in tool(cluster, "TopicCommand", *create, check=False)
    described = tool(cluster, "TopicCommand", "--describe", "--topic", name)
    assert re.search(rf"Topic: {name}\s.*PartitionCount: 2\s.*retention.ms=1000000", described)
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 2
    tool(cluster, "TopicCommand", "--alter", "--topic", name, "--partitions", "3")
    offsets = tool(cluster, "GetOffsetShell", "--topic", name)
    assert offsets.split() == [f"{name}:{partition}:0" for partition in range(3)]
    tool(cluster, "TopicCommand", "--delete", "--topic", name)
    assert name not in tool(cluster, "TopicCommand", "--list").split()


def test_kafka_configs_changes_topics_brokers_and_groups(
    cluster: Cluster, topic: TopicFactory, fresh: NameFactory
) -> None:
    def change(kind: str, name: str, config: str) -> str:
        entity = ("--entity-type", kind, "--entity-name", name)
        tool(cluster, "kafka.admin.ConfigCommand", *entity, "--alter", "--add-config", config)
        return tool(cluster, "kafka.admin.ConfigCommand", *entity, "--describe")

    assert "cleanup.policy=compact,delete" in change("topics", topic(), "cleanup.policy=[compact,delete]")
    interval = "consumer.heartbeat.interval.ms=6000"
    assert interval in change("groups", fresh("group"), interval)
    described = change("brokers", "1", "log.retention.ms=700000000")
    assert "DYNAMIC_BROKER_CONFIG:log.retention.ms=700000000" in described
    entity = ("--entity-type", "brokers", "--entity-name", "1", "--alter")
    tool(cluster, "kafka.admin.ConfigCommand", *entity, "--delete-config", "log.retention.ms")


def test_tools_that_look_at_the_cluster(cluster: Cluster, topic: TopicFactory) -> None:
    name = topic()
    assert "Produce(0): 0 to 13 [usable: 13]" in tool(cluster, "BrokerApiVersionsCommand")
    sizes = json.loads(tool(cluster, "LogDirsCommand", "--describe", "--topic-list", name).splitlines()[-1])
    (folder,) = sizes["brokers"][0]["logDirs"]
    assert [each["partition"] for each in folder["partitions"]] == [f"{name}-0"]
    assert "No partition reassignments found." in tool(
        cluster, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list"
    )
