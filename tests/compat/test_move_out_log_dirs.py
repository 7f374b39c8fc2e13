"""A kbroker with several log dirs moves to Apache Kafka and back: no partition becomes a stray one,
even if the directories are renamed and exchanged."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.compat.export_command import FEW, export
from tests.compat.travels import Travels, stay
from tests.peer.admin_tools import reassign
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(500)]


def logs(folder: Path, topic: str) -> set[str]:
    """The partitions of a topic whose logs are in a log dir, without those that are being
    deleted."""
    return {path.name for path in folder.glob(f"{topic}-*") if re.fullmatch(r".*-\d+", path.name)}


def check_no_strays(*dirs: Path) -> None:
    assert not [path for folder in dirs for path in folder.glob("*-stray*")]


def begin(node: KBroker, travels: Travels) -> None:
    node.start()
    try:
        travels.create(node.bootstrap, "orders", 4, cleanup_policy="delete")
        stay(travels, node.bootstrap, "first")
        for partition in range(1, 4):
            travels.write(node.bootstrap, "orders", partition, f"first-{partition}")
    finally:
        node.stop()


def test_two_log_dirs_go_to_apache_kafka_and_back(kafka_jars: str, tmp_path: Path) -> None:
    travels = Travels()
    one, two, renamed = tmp_path / "one", tmp_path / "two", tmp_path / "renamed"
    node = KBroker(tmp_path / "kbroker", {**FEW, "log.dirs": f"{one},{two}"})
    begin(node, travels)
    before = logs(one, "orders"), logs(two, "orders")
    assert all(before), "one dir has no log: the test shows nothing"
    assert f"log.dirs={one},{two}" in export(one, "4.3", two)

    two.rename(renamed)  # Apache Kafka identifies it by its directory.id
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.log_dir = one
    kafka.start({**FEW, "log.dirs": f"{renamed},{one}", "metadata.log.dir": str(one)})
    try:
        travels.check(kafka.bootstrap)
        check_no_strays(one, renamed)
        assert (logs(one, "orders"), logs(renamed, "orders")) == before
        stay(travels, kafka.bootstrap, "second")
        travels.grow(kafka.bootstrap, "orders", 6)
        travels.write(kafka.bootstrap, "orders", 5, "grown")
        moved = min(before[0])
        move(kafka, tmp_path, moved, renamed)
        travels.check(kafka.bootstrap)
    finally:
        kafka.stop()

    renamed.rename(two)
    now = logs(one, "orders"), logs(two, "orders")
    assert moved in now[1]
    node.start()
    try:
        travels.check(node.bootstrap)
        assert (logs(one, "orders"), logs(two, "orders")) == now
        stay(travels, node.bootstrap, "third")
    finally:
        node.stop()
    export(one, "4.3", two)

    kafka.start({**FEW, "log.dirs": f"{one},{two}"})
    try:
        travels.check(kafka.bootstrap)
        check_no_strays(one, two)
        assert (logs(one, "orders"), logs(two, "orders")) == now
    finally:
        kafka.stop()


def move(kafka: Any, folder: Path, log: str, log_dir: Path) -> None:
    """Apache Kafka moves a log to another of its log dirs."""
    topic, _, number = log.rpartition("-")
    spec = {"topic": topic, "partition": int(number), "replicas": [1], "log_dirs": [str(log_dir)]}
    _, reported = reassign(kafka, folder, [spec])
    assert f"Reassignment of replica {log}-1 completed successfully." in reported
