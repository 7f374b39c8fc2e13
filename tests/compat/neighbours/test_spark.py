"""Spark's Kafka connector reads and writes as a batch, and streams to files exactly once over a
kill -9."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.neighbours.spark_lines import COUNTS, LINES
from tests.compat.reading import read
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import ROOT, KBroker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

PARTITIONS = 3
MANY = 3000
FEW = 500


def program(kind: str, node: KBroker, folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.compat.neighbours.spark_lines", kind, node.bootstrap, str(folder)]


def run(kind: str, node: KBroker, folder: Path) -> str:
    """What the program prints last. It must end well."""
    done = subprocess.run(program(kind, node, folder), cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout.strip().rpartition("\n")[2]


def write(node: KBroker, first: int, count: int) -> dict[str, list[str]]:
    """Committed lines by partition; one of four transactions is aborted."""
    lines: dict[str, list[str]] = {str(partition): [] for partition in range(PARTITIONS)}
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "writer"})
    producer.init_transactions(120)
    for portion in range(first, first + count, 100):
        aborts = portion % 400 == 0
        producer.begin_transaction()
        for number in range(portion, portion + 100):
            line = f"line {number} of words {number % 7}"
            producer.produce(LINES, line, partition=number % PARTITIONS)
            if not aborts:
                lines[str(number % PARTITIONS)].append(line)
        producer.abort_transaction(60) if aborts else producer.commit_transaction(60)
    return lines


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    broker = broker_factory()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topics = [NewTopic(LINES, PARTITIONS, 1), NewTopic(COUNTS, 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(120)
    return broker


def test_a_batch_reads_committed_lines_and_writes_its_counts(node: KBroker, tmp_path: Path) -> None:
    written = write(node, 0, MANY)
    run("batch", node, tmp_path)
    expected = Counter(word for lines in written.values() for line in lines for word in line.split())
    found = [(message.key() or b"", message.value() or b"") for message in read(node.bootstrap, COUNTS)]
    assert {key.decode(): int(value) for key, value in found} == expected
    assert len(found) == len(expected)


def test_a_stream_that_is_killed_continues_and_has_each_line_once(node: KBroker, tmp_path: Path) -> None:
    written = write(node, 0, MANY)
    log = tmp_path / "first.log"
    with log.open("wb") as out:
        first = subprocess.Popen(
            program("stream", node, tmp_path), cwd=ROOT, stdout=out, stderr=out, start_new_session=True
        )
    try:
        # two portions of ten are in the files
        eventually(lambda: (tmp_path / "files/_spark_metadata/1").exists() or first.poll() is not None)
        assert first.poll() is None, log.read_text()
    finally:
        os.killpg(first.pid, signal.SIGKILL)  # Spark's Java, too
        first.wait()
    assert not (tmp_path / "checkpoint/commits/9").exists(), "it had ended: the test shows nothing"
    for partition, lines in write(node, MANY, FEW).items():
        written[partition] += lines
    assert json.loads(run("stream", node, tmp_path)) == written
