"""The node that a kbroker was exported to becomes the first of a cluster: brokers join it, and take
over everything."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.export_command import FEW, export
from tests.compat.travels import Travels, stay
from tests.peer.admin_tools import admin_tool, reassign
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.eventually import eventually
from tests.peer.joining_broker import JoiningBroker
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(500)]


def property_of(file: Path, name: str) -> str:
    (line,) = (line for line in file.read_text().splitlines() if line.startswith(f"{name}="))
    return line.partition("=")[2]


def partitions(bootstrap: str) -> Iterator[tuple[str, int, Any]]:
    """All partitions, also of the coordinators' topics."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
    for name, topic in topics.items():
        for number, partition in topic.partitions.items():
            yield name, number, partition


def are_in_sync(bootstrap: str, nodes: set[int]) -> bool:
    return all(nodes <= set(partition.isrs) for _, _, partition in partitions(bootstrap))


def test_brokers_join_an_exported_node_and_serve_its_data_without_it(kafka_jars: str, tmp_path: Path) -> None:
    travels = Travels()
    node = KBroker(tmp_path / "kbroker", FEW)
    node.start()
    try:
        travels.create(node.bootstrap, "orders", 3, cleanup_policy="delete")
        stay(travels, node.bootstrap, "first")
        travels.write(node.bootstrap, "orders", 2, "third")
    finally:
        node.stop()
    export(node.data_dir, "4.3")

    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.log_dir = node.data_dir
    with ExitStack() as stack:
        stack.callback(kafka.kill9)
        kafka.start(FEW)
        cluster_id = property_of(node.data_dir / "meta.properties", "cluster.id")
        voters = property_of(tmp_path / "kafka" / "server.properties", "controller.quorum.voters")
        joined = [JoiningBroker(tmp_path / f"node-{n}", n, cluster_id, voters, FEW) for n in (2, 3)]
        for broker in joined:
            stack.callback(broker.stop)
            broker.start()
        spread(kafka, tmp_path)
        bootstrap = joined[0].bootstrap
        travels.check(bootstrap)
        travels.write(bootstrap, "orders", 0, "spread")  # acks of all three
        eventually(lambda: are_in_sync(bootstrap, {1, 2, 3}))
        kafka.kill9()
        travels.check(bootstrap, takes_ids=False)  # ids come from the controller, which is gone


def spread(kafka: Any, folder: Path) -> None:
    """Three replicas of every partition; a joined broker leads it."""
    specs = [
        {"topic": name, "partition": number, "replicas": [2 + number % 2, 3 - number % 2, 1]}
        for name, number, _ in partitions(kafka.bootstrap)
    ]
    _, reported = reassign(kafka, folder, specs)
    assert reported.count("is completed") == len(specs), reported
    plan = folder / "elections.json"
    elected = [{"topic": spec["topic"], "partition": spec["partition"]} for spec in specs]
    plan.write_text(json.dumps({"partitions": elected}))
    election = ("LeaderElectionCommand", "--election-type", "preferred", "--path-to-json-file", str(plan))
    admin_tool(kafka, *election)
    eventually(lambda: all(found.leader != 1 for _, _, found in partitions(kafka.bootstrap)))
