"""A partition is moved between log dirs under load, and whoever dies meanwhile: it is in one of them, whole."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.protocol.errors import ErrorCode
from tests.crash.load import PARTITIONS, Load, create_topic, judge, read_all
from tests.crash.mover import TOPIC, Mover
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


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
            wanted = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            assert {mover.alter(partition, log_dir) for partition, log_dir in wanted.items()} == {0}
            mover.wait(wanted)
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
            wanted = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
            assert {mover.alter(partition, log_dir) for partition, log_dir in wanted.items()} == {0}
            time.sleep(random.Random(seed).uniform(0, 0.5))
            if victim == "everything":
                broker.kill9()
                broker.start()
            else:
                broker.kill9_running(victim)
            mover.wait(wanted)
            load.wait_for_ack(load.count)
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, TOPIC))
    broker.stop()


def test_what_can_not_be_moved_says_why(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    _, mover = _mover(tmp_path, broker_factory)
    here = mover.places()[0]
    assert mover.alter(0, str(tmp_path)) == ErrorCode.LOG_DIR_NOT_FOUND
    assert mover.alter(PARTITIONS, here) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mover.alter(0, here, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert mover.alter(0, here) == 0
    assert mover.places()[0] == here
