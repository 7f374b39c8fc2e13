"""Spark's Kafka connector and both ways to read segments find the same records, and it is seen when
they do not."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from confluent_kafka import Producer

from spark_validation.scale.compare import WORKS
from tests.peer.kbroker_node import ROOT, KBroker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1300)]
TOPIC = "ways"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def send(bootstrap: str, codec: str, transactional: bool = False) -> None:
    """Keys and values that are there, empty or missing; in a transaction: once aborted, once
    committed."""
    named = {"transactional.id": f"t-{codec}"} if transactional else {"enable.idempotence": codec == "zstd"}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, **named})
    if transactional:
        producer.init_transactions(30)
    for abort in (True, False) if transactional else (False,):
        if transactional:
            producer.begin_transaction()
        for n in range(400):
            key = (None, b"", b"k%d" % n)[n % 3]
            value = (None, b"", b"value %d " % n * (n % 50))[n % 5 % 3]
            producer.produce(
                TOPIC, value, key, partition=n % 3, headers=[("h", b"x")] if n % 7 == 0 else None
            )
        assert producer.flush(30) == 0
        if transactional:
            producer.abort_transaction(30) if abort else producer.commit_transaction(30)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KBroker]:
    node = KBroker(tmp_path / "broker", {"num.partitions": "3"})
    node.start()
    try:
        for codec in CODECS:
            send(node.bootstrap, codec)
        send(node.bootstrap, "lz4", transactional=True)
        yield node
    finally:
        node.stop()


def compare(broker: KBroker, segments: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    words = [
        "--bootstrap",
        broker.bootstrap,
        "--segments",
        str(segments),
        "--topic",
        TOPIC,
        "--rounds",
        "0",
        *more,
    ]
    command = [sys.executable, "-m", "spark_validation.scale.compare", "--folder", str(folder), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=640)


def test_all_ways_give_the_same_records_and_a_missing_one_is_reported(
    broker: KBroker, tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier"
    shutil.copytree(broker.data_dir, earlier)
    all_there = compare(broker, broker.data_dir, tmp_path / "scratch")
    assert all_there.returncode == 0, all_there.stdout[-2000:] + all_there.stderr[-2000:]
    assert all_there.stdout.count("2,800 records, all agree") == len(WORKS)
    send(broker.bootstrap, "none")  # the connector sees more than the copy holds
    one_way = ("--works", "all columns", "--ways", "segments as a frame")
    fewer = compare(broker, earlier, tmp_path / "scratch", *one_way)
    assert fewer.returncode == 1, fewer.stdout[-2000:] + fewer.stderr[-2000:]
    assert "DIFFER" in fewer.stdout
