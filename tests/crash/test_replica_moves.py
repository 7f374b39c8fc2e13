"""The replicas of a partition are moved between the log dirs of their sites, under load, while
processes die."""

import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from kbroker.protocol.errors import ErrorCode
from tests.crash.load import PARTITIONS, Load, judge, read_all
from tests.crash.mover import TOPIC, Mover
from tests.crash.seeds import chances
from tests.crash.sited import create, described, log_bytes, wait_for_in_sync
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_ports

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

MOVES = max(1, int(os.environ.get("KBROKER_KILLS", "1")) // 4)


def _start(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> tuple[KBroker, list[Mover]]:
    """Two sites of two log dirs each, a topic with a replica on both, and who moves it on each."""
    sites = [[str(tmp_path / f"site{site}{name}") for name in "ab"] for site in range(2)]
    broker = broker_factory(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(2)}",
            "log.dirs": ",".join(one for dirs in sites for one in dirs),
            "kbroker.replica.sites": ";".join(",".join(dirs) for dirs in sites),
            "num.io.threads": "2",
            "log.segment.bytes": "1048576",
            "log.segment.delete.delay.ms": "100",
        }
    )
    create(broker, TOPIC, PARTITIONS, 2)
    return broker, [Mover(broker, dirs, site) for site, dirs in enumerate(sites)]


def _begin(movers: list[Mover]) -> list[dict[int, str]]:
    """Every replica to the other log dir of its site; where they are going."""
    goals = []
    for mover in movers:
        goal = {partition: mover.other(log_dir) for partition, log_dir in mover.places().items()}
        assert {mover.alter(partition, log_dir) for partition, log_dir in goal.items()} == {0}
        goals.append(goal)
    return goals


def _judge(broker: KBroker, load: Load, movers: list[Mover], goals: list[dict[int, str]]) -> None:
    """Nothing is lost, both replicas are the same bytes, and nothing is left elsewhere."""
    judge(load, read_all(broker.bootstrap, TOPIC))
    wait_for_in_sync(broker, TOPIC, 2)
    for partition in range(PARTITIONS):
        first, second = (log_bytes(Path(goal[partition]), TOPIC, partition) for goal in goals)
        assert first == second, f"partition {partition}: replicas differ"
        for mover, goal in zip(movers, goals, strict=True):
            assert not Path(mover.other(goal[partition]), f"{TOPIC}-{partition}").exists()
    assert not [path for mover in movers for one in mover.dirs for path in Path(one).glob("*-future")]


def test_replicas_move_while_leaders_and_in_sync_sets_stay(
    tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker, movers = _start(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC)
    load.start()
    try:
        load.wait_for_acks()
        wait_for_in_sync(broker, TOPIC, 2)
        before = described(broker, TOPIC)
        for _ in range(2):
            goals = _begin(movers)
            for mover, goal in zip(movers, goals, strict=True):
                mover.wait(goal)
            load.wait_for_acks()
            assert described(broker, TOPIC) == before
    finally:
        load.stop()
    assert "is out of sync" not in broker.logs(1 << 20)
    assert broker.logs(1 << 20).count(": leader with epoch") == PARTITIONS
    _judge(broker, load, movers, goals)
    broker.restart()
    for mover, goal in zip(movers, goals, strict=True):
        assert _places(mover, goal.keys()).items() >= goal.items(), "a move is done again"
    _judge(broker, load, movers, goals)


def _places(mover: Mover, indexes: Collection[int]) -> dict[int, str]:
    """Log dirs of the partitions, once all are there."""
    eventually(lambda: mover.places().keys() >= set(indexes))
    return mover.places()


@pytest.mark.parametrize("victim", ["io 1", "control", "everything"])
def test_a_move_of_replicas_survives_the_death_of_its_parts(
    victim: str, tmp_path: Path, broker_factory: Callable[..., KBroker]
) -> None:
    broker, movers = _start(tmp_path, broker_factory)
    load = Load(broker.bootstrap, TOPIC, {"delivery.timeout.ms": 200_000})
    load.start()
    chance = chances()
    try:
        load.wait_for_acks()
        for _ in range(MOVES):
            goals = _begin(movers)
            time.sleep(chance.uniform(0, 0.6))
            if victim == "everything":
                broker.kill9()
                broker.start()
            else:
                broker.kill9_running(victim)
            for mover, goal in zip(movers, goals, strict=True):
                mover.wait(goal)
            load.wait_for_acks()
    finally:
        load.stop()
    _judge(broker, load, movers, goals)
    broker.stop()


def test_a_node_only_moves_its_own_replicas(tmp_path: Path, broker_factory: Callable[..., KBroker]) -> None:
    broker, movers = _start(tmp_path, broker_factory)
    create(broker, "single", 1, 1)
    first, second = movers
    assert first.alter(0, second.dirs[0]) == ErrorCode.LOG_DIR_NOT_FOUND
    (leader, _, _) = described(broker, "single")[0]
    other = movers[leader % 2]
    assert other.alter(0, other.dirs[0], topic="single") == ErrorCode.REPLICA_NOT_AVAILABLE
    broker.stop()
