"""Apache Kafka's tools for replicas and log dirs on a running broker."""

import json
import time
from pathlib import Path
from typing import Any

from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

LIMIT_S = 60


def admin_tool(broker: KBroker, name: str, *arguments: str) -> str:
    """What a class of org.apache.kafka.tools says. Raises ToolFailed."""
    return run_tool(
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", broker.bootstrap, *arguments
    ).stdout


def log_dirs(broker: KBroker, topic: str) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """Node -> log dir -> replicas of the topic (kafka-log-dirs)."""
    output = admin_tool(broker, "LogDirsCommand", "--describe", "--topic-list", topic)
    (line,) = (line for line in output.splitlines() if line.startswith("{"))
    return {
        node["broker"]: {one["logDir"]: one["partitions"] for one in node["logDirs"]}
        for node in json.loads(line)["brokers"]
    }


def reassign(broker: KBroker, folder: Path, specs: list[dict[str, Any]], *options: str) -> tuple[str, str]:
    """Execute a plan and verify it until it is done; what the tool said of both
    (kafka-reassign-partitions)."""
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": specs}))
    command = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(plan))
    begun = admin_tool(broker, *command, "--execute", *options)
    deadline = time.monotonic() + LIMIT_S
    while "is still in progress" in (reported := admin_tool(broker, *command, "--verify")):
        assert time.monotonic() < deadline, reported
    return begun, reported
