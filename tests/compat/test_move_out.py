"""Log dirs move from kbroker to Apache Kafka and back with all their data, starting with either."""

from pathlib import Path

import pytest

from tests.compat.export_command import FEW, RELEASES, export, need
from tests.compat.travels import Travels, stay
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(500)]


@pytest.fixture
def travels() -> Travels:
    return Travels()


@pytest.mark.parametrize(("release", "jars"), RELEASES)
def test_a_directory_of_kbrokers_goes_to_apache_kafka_and_back(
    kafka_jars: str, tmp_path: Path, travels: Travels, release: str, jars: str
) -> None:
    need(jars)
    node = KBroker(tmp_path / "kbroker", FEW)
    kafka = ApacheKafka(tmp_path / "kafka", jars=jars)
    kafka.log_dir = node.data_dir
    node.start()
    try:
        travels.create(node.bootstrap, "orders", 2, cleanup_policy="delete")
        travels.create(node.bootstrap, "doomed", 1)
        stay(travels, node.bootstrap, "first")
        travels.check(node.bootstrap)
    finally:
        node.stop()
    assert f"log.dirs={node.data_dir}" in export(node.data_dir, release)

    kafka.start(FEW)
    try:
        travels.check(kafka.bootstrap)
        stay(travels, kafka.bootstrap, "second")
        travels.delete(kafka.bootstrap, "doomed")
        travels.grow(kafka.bootstrap, "orders", 4)
        travels.write(kafka.bootstrap, "orders", 3, "grown")
        travels.check(kafka.bootstrap)
    finally:
        kafka.stop()
    assert not list(node.data_dir.glob("*-stray"))

    node.start()
    try:
        travels.check(node.bootstrap)
        stay(travels, node.bootstrap, "third")
        travels.check(node.bootstrap)
    finally:
        node.stop()
    export(node.data_dir, release)

    kafka.start()
    try:
        travels.check(kafka.bootstrap)
        travels.write(kafka.bootstrap, "orders", 0, "last")
        travels.check(kafka.bootstrap)
    finally:
        kafka.stop()


@pytest.mark.parametrize("jars", [jars for _, jars in RELEASES])
def test_a_directory_of_apache_kafkas_comes_back_with_what_was_made_meanwhile(
    kafka_jars: str, tmp_path: Path, travels: Travels, jars: str
) -> None:
    """Each clean stop of kbroker writes for the release that the directory is of."""
    need(jars)
    kafka = ApacheKafka(tmp_path / "kafka", jars=jars)
    kafka.start(FEW)
    try:
        travels.create(kafka.bootstrap, "orders", 2, cleanup_policy="delete")
        stay(travels, kafka.bootstrap, "first")
    finally:
        kafka.stop()

    settings = {"log.dirs": str(kafka.log_dir), "kbroker.kraft.metadata": "true", **FEW}
    node = KBroker(tmp_path / "kbroker", settings)
    node.start()
    try:
        travels.check(node.bootstrap)
        stay(travels, node.bootstrap, "second")
        travels.grow(node.bootstrap, "orders", 3)
        travels.write(node.bootstrap, "orders", 2, "grown")
    finally:
        node.stop()

    kafka.start()
    try:
        travels.check(kafka.bootstrap)
        stay(travels, kafka.bootstrap, "third")
        travels.delete(kafka.bootstrap, "of-second")
        travels.create(kafka.bootstrap, "of-second", 1, retention_ms="5000000")
    finally:
        kafka.stop()

    node.start()
    try:
        travels.check(node.bootstrap)
    finally:
        node.stop()
