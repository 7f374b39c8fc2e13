"""The measuring device itself: Apache Kafka runs, its tools run, and what it wrote is where it
says."""

import pytest

from tests.peer.apache_kafka import ApacheKafka
from tests.peer.tools import ToolFailed, dump_log, run_tool

pytestmark = pytest.mark.kafka


def test_console_tools_write_and_read_through_the_node(kafka: ApacheKafka) -> None:
    target = ("--bootstrap-server", kafka.bootstrap, "--topic", "peer-check")
    kafka.run_tool("org.apache.kafka.tools.ConsoleProducer", *target, stdin="one\ntwo\n")
    read = kafka.run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", *target, "--from-beginning", "--max-messages", "2"
    )
    assert read.stdout.split() == ["one", "two"]
    dumped = dump_log(*(kafka.log_dir / "peer-check-0").glob("*.log"))
    assert "isvalid: true" in dumped
    assert "payload: two" in dumped


def test_a_tool_that_fails_says_why(kafka_jars: str) -> None:
    with pytest.raises(ToolFailed, match="does-not-exist"):
        run_tool("org.apache.kafka.tools.ConsoleProducer", "--does-not-exist")
