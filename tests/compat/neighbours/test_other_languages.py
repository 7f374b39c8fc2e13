"""Clients of other languages write 100 records and read them back in a group that commits."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.conftest import BrokerFactory

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(580)]

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[3] / ".cache" / "neighbours"
KAFKAJS = "kafkajs@2.2.4"


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> int:
    """The sum of a group's committed offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], 30)
    consumer.close()
    return sum(max(one.offset, 0) for one in found)


def test_kafkajs_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no Node.js")
    CACHE.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(CACHE), KAFKAJS]
    if subprocess.run(command, capture_output=True, timeout=200).returncode:
        pytest.skip(f"npm cannot install {KAFKAJS}")
    broker = broker_factory()
    done = subprocess.run(
        [node, str(HERE / "kafkajs.js"), broker.bootstrap, "of-js"],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "NODE_PATH": str(CACHE / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert committed(broker.bootstrap, "kafkajs", "of-js", 3) == 100


def test_franz_go_writes_and_reads_in_a_group(broker_factory: BrokerFactory) -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go")
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / "franz"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=HERE / "franz_go",
        capture_output=True,
        text=True,
        timeout=500,
    )
    if built.returncode:
        pytest.skip(f"Go cannot build it: {built.stderr[-300:]}")
    broker = broker_factory()
    done = subprocess.run([program, broker.bootstrap, "of-go"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert committed(broker.bootstrap, "franz", "of-go", 1) == 100
