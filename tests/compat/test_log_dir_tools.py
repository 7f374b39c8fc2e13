"""Apache Kafka's tools move a replica between log dirs and see it arrive: kafka-reassign-partitions, kafka-log-dirs."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.load import create_topic
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = [
    pytest.mark.compat,
    pytest.mark.kafka,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.timeout(300),
]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


def described(broker: KBroker) -> dict[str, list[dict[str, Any]]]:
    """Replicas by log dir, as kafka-log-dirs tells."""
    output = run_tool(
        LOG_DIRS, "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", "moved"
    ).stdout
    (line,) = (line for line in output.splitlines() if line.startswith("{"))
    (node,) = json.loads(line)["brokers"]
    return {one["logDir"]: one["partitions"] for one in node["logDirs"]}


def test_the_tools_move_a_replica(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    broker = broker_factory({"log.dirs": ",".join(dirs), "node.id": "1"})
    create_topic(broker.bootstrap, "moved")
    before = described(broker)
    (here,) = (
        folder for folder, replicas in before.items() if any(r["partition"] == "moved-0" for r in replicas)
    )
    (there,) = (folder for folder in dirs if folder != here)
    plan = tmp_path / "plan.json"
    wish = {"topic": "moved", "partition": 0, "replicas": [1], "log_dirs": [there]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wish]}))
    options = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan))
    run_tool(REASSIGN, *options, "--execute")
    deadline = time.monotonic() + 60
    while "is still in progress" in (told := run_tool(REASSIGN, *options, "--verify").stdout):
        assert time.monotonic() < deadline, told
    assert "Reassignment of replica moved-0-1 completed successfully." in told
    after = described(broker)
    assert [r["isFuture"] for r in after[there] if r["partition"] == "moved-0"] == [False]
    assert not [r for r in after[here] if r["partition"] == "moved-0"]
