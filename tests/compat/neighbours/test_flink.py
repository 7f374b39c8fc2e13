"""Flink reads and writes exactly once, over a failure of its job."""

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.neighbours.building import run
from tests.compat.reading import read
from tests.conftest import BrokerFactory
from tests.peer.artifacts import PeerUnavailable, class_path
from tests.peer.java import find_java, has_compiler
from tests.peer.tools import java_command

pytestmark = [pytest.mark.compat, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

JARS = "flink"
PROGRAM = Path(__file__).parents[2] / "peer" / "programs" / "FlinkWords.java"
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.util", "java.util.concurrent", "java.time")
)
JVM = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENED)
LINES = 3000
COMPILER = "jdk.compiler/com.sun.tools.javac.Main"


def flink_command(folder: Path) -> list[str]:
    """The program, compiled into this folder: Flink's workers load its classes from the class path.
    Skips the test without Flink."""
    try:
        libraries = class_path(JARS)
    except PeerUnavailable as reason:
        pytest.skip(f"no Flink: {reason}")
    if not has_compiler():
        pytest.skip("this Java has no compiler")
    jars = ":".join(map(str, Path(libraries).parent.glob("*.jar")))  # started so, it knows no wildcard
    run([str(find_java()), "-m", COMPILER, "-cp", jars, "-d", str(folder), str(PROGRAM)])
    command = java_command(PROGRAM.stem, jvm=JVM, jars=JARS)
    command[command.index("-cp") + 1] += f":{folder}"
    return command


def test_words_are_counted_exactly_once_over_a_failure(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    command = flink_command(tmp_path)
    node = broker_factory()
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_topics([NewTopic("lines", 2, 1), NewTopic("counts", 1, 1)]).values():
        future.result(120)
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    lines = [f"line {number % 11} of {number % 7}" for number in range(LINES)]
    for number, line in enumerate(lines):
        producer.produce("lines", line, partition=number % 2)
    assert producer.flush(120) == 0
    assert "failures 1" in run([*command, node.bootstrap, "lines", "counts"])
    expected = Counter(word for line in lines for word in line.split())
    found: dict[str, list[int]] = {}
    for message in read(node.bootstrap, "counts"):
        found.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b""))
    assert found == {word: list(range(1, count + 1)) for word, count in expected.items()}
