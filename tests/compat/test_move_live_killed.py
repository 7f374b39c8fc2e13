"""`kbroker move` is killed while it copies under load, and so is MirrorMaker: the same command
continues. Nothing is lost; repeated records are counted, and there are none with
--exactly-once."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from tests.compat.moving import KAFKAS_AUTHORIZER, Mover, Trickle, running_cluster
from tests.compat.reading import read
from tests.conftest import BrokerFactory
from tests.crash.load import create_topic
from tests.peer.eventually import eventually
from tests.peer.kafka_cluster import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(500)]

BACKLOG = 60_000
PADDING = 1000


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as three:
        yield three


def write_backlog(bootstrap: str, topic: str) -> None:
    """So many records that a copy of them can be killed in its middle."""
    create_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(BACKLOG):
        producer.produce(topic, str(number // 3).ljust(PADDING), partition=number % 3)
        if number % 1000 == 0:
            producer.poll(0.01)
    assert producer.flush(120) == 0


def values(bootstrap: str, topic: str, partition: int) -> list[int]:
    """What a read_committed consumer reads."""
    return [int(message.value() or b"") for message in read(bootstrap, topic, partition)]


def distinct(found: list[int]) -> list[int]:
    """Without repetitions, in the order of the first ones."""
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("exact", [False, True], ids=["plain", "exactly-once"])
def test_a_killed_move_continues_and_counts_what_was_repeated(
    cluster: KafkaCluster, broker_factory: BrokerFactory, tmp_path: Path, exact: bool
) -> None:
    name = "exact" if exact else "plain"
    broker = broker_factory(KAFKAS_AUTHORIZER)
    write_backlog(broker.bootstrap, f"{name}-backlog")
    words = ["move", "--bootstrap", broker.bootstrap, "--to", cluster.bootstrap]
    words += ["--exactly-once"] if exact else []
    load = Trickle(broker.bootstrap, f"{name}-live")
    try:
        orphan = kill_command(Mover(tmp_path, *words))
        kill_mirror_maker(Mover(tmp_path, *words))
        eventually(lambda: has_ended(orphan))
        interrupt(Mover(tmp_path, *words))
        last = Mover(tmp_path, *words)
        assert last.in_step.wait(200)
    finally:
        load.stop()
    outcome = last.outcome()
    assert last.said[0].startswith("continuing with"), last.said
    assert outcome["clean"]
    expected = {(f"{name}-backlog", partition): list(range(BACKLOG // 3)) for partition in range(3)}
    expected |= {(load.topic, partition): sent for partition, sent in load.acknowledged.items()}
    repeated = 0
    for place, sent in expected.items():
        arrived = values(cluster.bootstrap, *place)
        assert distinct(arrived) == sent
        repeated += len(arrived) - len(sent)
    assert outcome["duplicates"] == repeated
    assert not (exact and repeated)


def kill_command(mover: Mover) -> psutil.Process:
    """kill -9 of the command; MirrorMaker, which is returned, ends a moment later."""
    mover.wait_until_it_copies()
    java = mover.mirror_maker()
    mover.process.kill()
    mover.ended()
    return java


def interrupt(mover: Mover) -> None:
    """Ctrl-C: MirrorMaker commits its positions and ends with the command."""
    mover.wait_until_it_copies()
    java = mover.mirror_maker()
    mover.process.send_signal(signal.SIGINT)
    mover.ended()
    assert has_ended(java)


def kill_mirror_maker(mover: Mover) -> None:
    """kill -9 of MirrorMaker: the command ends and names the reason."""
    mover.wait_until_it_copies()
    mover.mirror_maker().kill()
    assert "MirrorMaker ended with -9" in mover.ended()


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
