"""Apache Kafka's tools move a replica between log dirs and see it arrive:
kafka-reassign-partitions, kafka-log-dirs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.load import create_topic
from tests.peer.admin_tools import log_dirs, reassign
from tests.peer.kbroker_node import KBroker

pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.timeout(300),
]

TOPIC = "moved"


def described(broker: KBroker) -> dict[str, list[dict[str, Any]]]:
    """Replicas by log dir of the one node."""
    (dirs,) = log_dirs(broker, TOPIC).values()
    return dirs


def test_the_tools_move_a_replica(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    broker = broker_factory({"log.dirs": ",".join(dirs), "node.id": "1"})
    create_topic(broker.bootstrap, TOPIC)
    before = described(broker)
    (here,) = (
        folder for folder, replicas in before.items() if any(r["partition"] == "moved-0" for r in replicas)
    )
    (there,) = (folder for folder in dirs if folder != here)
    spec = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [there]}
    _, reported = reassign(broker, tmp_path, [spec])
    assert "Reassignment of replica moved-0-1 completed successfully." in reported
    after = described(broker)
    assert [r["isFuture"] for r in after[there] if r["partition"] == "moved-0"] == [False]
    assert not [r for r in after[here] if r["partition"] == "moved-0"]
