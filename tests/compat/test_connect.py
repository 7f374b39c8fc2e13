"""Kafka Connect, distributed and with its default settings, which ask for topics of three
replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.connect_worker import JARS, ConnectWorker
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(400)]

LINES = [f"line {number}" for number in range(500)]
CLUSTERS_DEFAULTS = {"default.replication.factor": "3", "min.insync.replicas": "2"}
"""As in a server.properties of three brokers: the connector's own topic is made by them."""


@pytest.fixture
def clustered(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory(CLUSTERS_DEFAULTS)


@pytest.fixture
def worker(clustered: KBroker, tmp_path: Path) -> Iterator[ConnectWorker]:
    try:
        class_path(JARS)
    except PeerUnavailable as reason:
        pytest.skip(f"no Kafka Connect: {reason}")
    one = ConnectWorker(tmp_path / "connect", clustered.bootstrap)
    one.start()
    yield one
    one.stop()


def test_a_worker_with_default_settings_moves_lines_from_file_to_file(
    clustered: KBroker, worker: ConnectWorker, tmp_path: Path
) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    connector = {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(source),
        "topic": "lines",
    }
    worker.ask("POST", "/connectors", {"name": "source", "config": connector})
    connector = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(sink), "topics": "lines"}
    worker.ask("POST", "/connectors", {"name": "sink", "config": connector})
    eventually(lambda: sink.exists() and sink.read_text().splitlines() == LINES)
    for name in ("source", "sink"):
        status = worker.ask("GET", f"/connectors/{name}/status")
        assert [task["state"] for task in status["tasks"]] == ["RUNNING"], status

    topics = AdminClient({"bootstrap.servers": clustered.bootstrap}).list_topics(timeout=10).topics
    for name in ("connect-configs", "connect-offsets", "connect-status", "lines"):
        assert {len(partition.replicas) for partition in topics[name].partitions.values()} == {1}
    assert "topic 'connect-offsets' has 1 replica a partition, not 3" in clustered.logs(1 << 20)


def test_its_rest_interface_pauses_resets_and_deletes_a_connector(
    worker: ConnectWorker, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": "rested"}
    worker.ask("PUT", "/connectors/source/config", config)

    def offsets() -> list[int]:
        return [
            one["offset"]["position"] for one in worker.ask("GET", "/connectors/source/offsets")["offsets"]
        ]

    def state() -> str:
        return str(worker.ask("GET", "/connectors/source/status")["connector"]["state"])

    eventually(lambda: offsets() == [source.stat().st_size])  # they are stored once a minute
    worker.ask("PUT", "/connectors/source/pause")
    eventually(lambda: state() == "PAUSED")
    worker.ask("PUT", "/connectors/source/resume")
    eventually(lambda: state() == "RUNNING")
    worker.ask("PUT", "/connectors/source/stop")
    eventually(lambda: state() == "STOPPED")
    worker.ask("DELETE", "/connectors/source/offsets")
    assert offsets() == []
    worker.ask("DELETE", "/connectors/source")
    assert worker.ask("GET", "/connectors") == []
