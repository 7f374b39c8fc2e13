"""A partition is moved between log dirs under load, and processes die meanwhile: it is in one of
them, whole."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kbroker.control import failpoint
from kbroker.ipc import crash_point
from kbroker.protocol.errors import ErrorCode
from tests.crash.load import PARTITIONS, Load, create_topic, judge, read_all
from tests.crash.mover import TOPIC, Mover
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

RECORDS = 20_000  # hours at 100 bytes a second


def _mover(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> tuple[KBroker, Mover]:
    dirs = [str(tmp_path / "one"), str(tmp_path / "two")]
    broker = broker_factory(
        {
            "log.dirs": ",".join(dirs),
            "num.io.threads": "2",
            "log.segment.delete.delay.ms": "100",
            "log.roll.ms": "500",
        }
    )
    create_topic(broker.bootstrap, TOPIC)
    return broker, Mover(broker, dirs)


def test_partitions_move_back_and_forth_under_load(
    tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker, mover = _mover(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC)
    load.start()
    try:
        load.wait_for_ack(0)
        for _ in range(2):
            expected = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            assert {mover.alter(partition, log_dir) for partition, log_dir in expected.items()} == {0}
            mover.wait(expected)
            load.wait_for_ack(load.count)
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, TOPIC))
    places = mover.places()
    broker.restart()
    assert mover.places() == places
    judge(load, read_all(broker.bootstrap, TOPIC))
    for partition, log_dir in places.items():
        assert Path(log_dir, f"{TOPIC}-{partition}").is_dir()
        assert not Path(mover.other(log_dir), f"{TOPIC}-{partition}").exists()
    assert not [path for folder in mover.dirs for path in Path(folder).glob("*-future")]


@pytest.mark.parametrize("victim", ["io", "control", "everything"])
def test_a_move_survives_the_death_of_its_parts(
    victim: str, tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker, mover = _mover(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC, {"delivery.timeout.ms": 200_000})
    load.start()
    try:
        load.wait_for_ack(0)
        for seed in range(1):
            expected = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            assert {mover.alter(partition, log_dir) for partition, log_dir in expected.items()} == {0}
            time.sleep(random.Random(seed).uniform(0, 0.5))
            if victim == "everything":
                broker.kill9()
                broker.start()
            else:
                broker.kill9_running(victim)
            mover.wait(expected)
            load.wait_for_ack(load.count)
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, TOPIC))
    broker.stop()


@pytest.mark.parametrize("place", ["switched", "stored"])
def test_a_move_survives_control_at_any_step_of_a_switch(
    place: str, tmp_path: Path, broker_factory: Callable[..., KBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log is held off, or the new log dir is stored and no process knows it."""
    failpoint_file = tmp_path / "failpoint"
    monkeypatch.setenv(failpoint.VARIABLE, str(failpoint_file))
    broker, mover = _mover(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC, {"delivery.timeout.ms": 200_000})
    load.start()
    try:
        load.wait_for_acks()
        for number in range(1, PARTITIONS + 1):
            expected = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            failpoint_file.write_text(f"{place} {number}")
            assert {mover.alter(partition, log_dir) for partition, log_dir in expected.items()} == {0}
            mover.wait(expected)
            assert not failpoint_file.exists(), "control did not reach it"
            load.wait_for_acks()
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, TOPIC))
    broker.restart()
    assert mover.places() == expected
    judge(load, read_all(broker.bootstrap, TOPIC))


def test_a_move_survives_everything_at_any_step(
    tmp_path: Path, broker_factory: Callable[..., KBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, mover = _mover(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC, {"delivery.timeout.ms": 200_000})
    load.start()
    try:
        load.wait_for_acks()
        eventually(lambda: max(load.acknowledged[0], default=-1) >= 5)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_records([TopicPartition(TOPIC, 0, 5)])[TopicPartition(TOPIC, 0)].result(120)
        for place in [name for name in crash_point.POINTS if name.startswith("move: ")]:
            expected = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            broker.kill9()
            with monkeypatch.context() as armed:
                armed.setitem(broker.environment, crash_point.VARIABLE, f"{place}:1")
                broker.start()
            reported = {
                partition: mover.try_alter(partition, log_dir) for partition, log_dir in expected.items()
            }
            assert reported
            assert set(reported.values()) - {0, None} == set()
            assert broker.process is not None
            assert broker.process.wait(90) == -signal.SIGKILL, place
            broker.kill9()
            broker.start()
            done = {partition: expected[partition] for partition, code in reported.items() if code == 0}
            mover.wait(done)
            load.wait_for_acks()
    finally:
        load.stop()
    log = read_all(broker.bootstrap, TOPIC)
    assert min(log[0]) == 5, "deleted records are there again"
    log[0] |= {offset: value for offset, value in load.acknowledged[0].items() if offset < 5}
    judge(load, log)
    broker.stop()


def _throttle(broker: KBroker, bytes_per_second: str | None) -> None:
    operation = AlterConfigOpType.SET if bytes_per_second else AlterConfigOpType.DELETE
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    entry = ConfigEntry(name, bytes_per_second, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(120)


def test_a_move_continues_after_a_clean_stop(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    broker, mover = _mover(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC)
    load.start()
    try:
        load.wait_for_acks()
        load.wait_for_ack(RECORDS)
    finally:
        load.stop()
    _throttle(broker, "100")
    expected = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
    assert {mover.alter(partition, log_dir) for partition, log_dir in expected.items()} == {0}
    assert mover.places(future=True) == expected
    broker.restart()
    eventually(lambda: mover.places(future=True) == expected)
    broker.kill9_running("control")
    eventually(lambda: mover.places(future=True) == expected)
    _throttle(broker, None)
    broker.restart()
    mover.wait(expected)
    judge(load, read_all(broker.bootstrap, TOPIC))


def test_an_impossible_move_is_refused_with_its_reason(
    tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    _, mover = _mover(tmp_path, broker_factory)
    here = mover.places()[0]
    assert mover.alter(0, str(tmp_path)) == ErrorCode.LOG_DIR_NOT_FOUND
    assert mover.alter(PARTITIONS, here) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mover.alter(0, here, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mover.alter(0, here) == 0
    assert mover.places()[0] == here
