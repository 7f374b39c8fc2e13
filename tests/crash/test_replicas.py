"""Local replicas: a killed IO worker or a lost site costs nothing that acks=all acknowledged, and
the load continues."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ResourceType,
)

from tests.crash.load import PARTITIONS, Load, judge, read_all, watermarks
from tests.crash.sited import create, described, led_again_s, log_bytes, start_sites, wait_for_in_sync
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

KILLS = 5
GAP_S, MEDIAN_S = 5.0, 20.0
"""Without any acknowledgement after a kill: the first quartile and the median of some. A busy
machine is slow again and again; without a replica that leads at once each takes as long as a
session."""
LED_AGAIN_S = 20.0
"""Of a vanished disk, on a busy machine; less than replica.lag.time.max.ms."""
LAG_MS = "6000"
"""Of a follower that hangs. A leader that has no processor for as long leads no more."""
LOOK_S = 1.0  # until a folder that vanished is looked at; appends are taken until then
SMALL_SEGMENTS = {"log.segment.bytes": "1048576"}


@pytest.mark.parametrize("sites", [2, 3])
def test_io_workers_killed_in_turn_under_load(
    sites: int, broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """Each leader is killed; the rest continue within two seconds, and in the end all replicas are
    the same bytes."""
    broker, dirs = start_sites(broker_factory, tmp_path, sites, SMALL_SEGMENTS)
    create(broker, "replicated", PARTITIONS, sites)
    load = Load(broker.bootstrap, "replicated")
    load.start()
    gaps = []
    try:
        for number in range(KILLS):
            wait_for_in_sync(broker, "replicated", sites)
            load.wait_for_acks()
            load.longest_gap()
            broker.kill9_running(f"io {number % sites}")
            load.wait_for_acks()
            load.wait_for_acks()
            gaps.append(load.longest_gap())
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, "replicated"))
    wait_for_in_sync(broker, "replicated", sites)
    for partition in range(PARTITIONS):
        first, *others = (log_bytes(folder, "replicated", partition) for folder in dirs)
        assert all(other == first for other in others), f"partition {partition}: replicas differ"
    gaps.sort()
    print(f"{sites} sites: {load.count} acknowledged, gaps {', '.join(f'{gap:.3f}' for gap in gaps)} s")
    assert gaps[KILLS // 2] < MEDIAN_S
    assert gaps[KILLS // 4] < GAP_S
    broker.stop()


def test_everything_killed_under_load(broker_factory: Callable[..., KBroker], tmp_path: Path) -> None:
    broker, _ = start_sites(broker_factory, tmp_path, 2, SMALL_SEGMENTS)
    create(broker, "all-killed", PARTITIONS, 2)
    load = Load(broker.bootstrap, "all-killed")
    load.start()
    try:
        for _ in range(3):
            load.wait_for_ack(load.count)
            broker.kill9()
            broker.start()
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, "all-killed"))
    wait_for_in_sync(broker, "all-killed", 2)
    broker.stop()


def test_a_frozen_follower_holds_acks_all(broker_factory: Callable[..., KBroker], tmp_path: Path) -> None:
    """While it is in sync nothing is acknowledged that it does not have; it is when it
    continues."""
    patient = {"replica.lag.time.max.ms": "60000", "broker.session.timeout.ms": "60000"}
    broker, _ = start_sites(broker_factory, tmp_path, 2, patient)
    create(broker, "held", 1, 2)
    leader, replicas, in_sync = described(broker, "held")[0]
    assert in_sync == sorted(replicas), "a new partition begins with all replicas in sync"
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "linger.ms": 0})
    acknowledged: list[float] = []

    def note(error: KafkaError | None, _: Message) -> None:
        assert error is None, error
        acknowledged.append(time.monotonic())

    producer.produce("held", b"before", partition=0, on_delivery=note)
    assert producer.flush(120) == 0
    follower = next(child for title, child in broker.children().items() if title.endswith(f"io {2 - leader}"))
    follower.suspend()
    try:
        producer.produce("held", b"while frozen", partition=0, on_delivery=note)
        producer.flush(2)
        assert len(acknowledged) == 1
    finally:
        thawed = time.monotonic()
        follower.resume()
    assert producer.flush(120) == 0
    assert acknowledged[1] >= thawed
    broker.stop()


def test_too_few_in_sync_replicas_are_reported_and_service_comes_back(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """min.insync.replicas=2 of 2: while the other worker is stopped, acks=all is refused once it is
    out of sync, acks=1 continues."""
    settings = {**SMALL_SEGMENTS, "replica.lag.time.max.ms": LAG_MS}
    broker, _ = start_sites(broker_factory, tmp_path, 2, settings)
    create(broker, "guarded", 1, 2, {"min.insync.replicas": "2"})
    leader, _, _ = described(broker, "guarded")[0]
    follower = next(child for title, child in broker.children().items() if title.endswith(f"io {2 - leader}"))
    eventually(lambda: _produce(broker, "guarded", "all") is None)  # a follower may be late once
    follower.suspend()
    try:
        assert _produce(broker, "guarded", "1") is None  # what the follower lacks now
        wait_for_in_sync(broker, "guarded", 1)
        for _ in range(10):  # a follower that hangs does not join again meanwhile
            assert _produce(broker, "guarded", "all") == KafkaError.NOT_ENOUGH_REPLICAS
            time.sleep(0.1)
        assert _produce(broker, "guarded", "1") is None
    finally:
        follower.resume()
    wait_for_in_sync(broker, "guarded", 2)
    eventually(lambda: _produce(broker, "guarded", "all") is None)
    broker.stop()


def test_a_changed_min_insync_replicas_counts_while_a_worker_hangs(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """The change is answered, too, although the worker cannot apply it."""
    settings = {**SMALL_SEGMENTS, "replica.lag.time.max.ms": LAG_MS}
    broker, _ = start_sites(broker_factory, tmp_path, 2, settings)
    create(broker, "changed", 1, 2)
    leader = described(broker, "changed")[0][0]
    follower = next(child for title, child in broker.children().items() if title.endswith(f"io {2 - leader}"))
    eventually(lambda: _produce(broker, "changed", "all") is None)  # a follower may be late once
    follower.suspend()
    try:
        assert _produce(broker, "changed", "1") is None  # what the follower lacks now
        wait_for_in_sync(broker, "changed", 1)
        assert _produce(broker, "changed", "all") is None
        _require_in_sync(broker, "changed", 2)
        eventually(lambda: _produce(broker, "changed", "all") == KafkaError.NOT_ENOUGH_REPLICAS)
        _require_in_sync(broker, "changed", 1)
        eventually(lambda: _produce(broker, "changed", "all") is None)
        _require_in_sync(broker, "changed", 2)
    finally:
        follower.resume()
    wait_for_in_sync(broker, "changed", 2)
    eventually(lambda: _produce(broker, "changed", "all") is None)
    broker.stop()


def test_a_topic_is_deleted_while_a_worker_hangs(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """Other changes continue, too. The name is free once the worker has closed its logs."""
    broker, _ = start_sites(broker_factory, tmp_path, 2, SMALL_SEGMENTS)
    for topic in ("deleted", "changed"):
        create(broker, topic, 2, 2)
        assert _produce(broker, topic, "all") is None
    hanging = next(child for title, child in broker.children().items() if title.endswith("io 1"))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    hanging.suspend()
    try:
        admin.delete_topics(["deleted"], request_timeout=20)["deleted"].result(120)
        assert "deleted" not in admin.list_topics(timeout=60).topics
        _require_in_sync(broker, "changed", 1)
        with pytest.raises(KafkaException, match="marked for deletion"):
            create(broker, "deleted", 2, 2)
    finally:
        hanging.resume()

    def created() -> bool:
        try:
            create(broker, "deleted", 2, 2)
        except KafkaException:
            return False
        return True

    eventually(created)
    assert _produce(broker, "deleted", "all") is None
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    ends = [watermarks(consumer, TopicPartition("deleted", partition)) for partition in (0, 1)]
    assert sorted(ends) == [(0, 0), (0, 1)], "nothing is left of the deleted topic"
    consumer.close()
    broker.stop()


def _require_in_sync(broker: KBroker, topic: str, count: int) -> None:
    """Set the topic's min.insync.replicas."""
    set_configs(broker.bootstrap, ResourceType.TOPIC, topic, {"min.insync.replicas": str(count)})


def _produce(broker: KBroker, topic: str, acks: str) -> int | None:
    """One record without retries; the error code of its delivery."""
    outcome: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        outcome.append(error)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": acks, "retries": 0})
    producer.produce(topic, b"value", on_delivery=delivered)
    assert producer.flush(120) == 0
    return outcome[0].code() if outcome[0] else None


def test_a_site_whose_disk_vanishes_is_led_for_and_catches_up_when_it_is_back(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, dirs = start_sites(broker_factory, tmp_path, 3, SMALL_SEGMENTS)
    create(broker, "vanishing", PARTITIONS, 3)
    load = Load(broker.bootstrap, "vanishing")
    load.start()
    away = tmp_path / "away"
    try:
        load.wait_for_ack(0)
        moment_s = time.time()
        dirs[1].rename(away)
        wait_for_in_sync(broker, "vanishing", 2)
        load.wait_for_acks()
        assert led_again_s(broker, moment_s) < LED_AGAIN_S + LOOK_S
        leaders = [leader for leader, _, _ in described(broker, "vanishing").values()]
        assert len(leaders) == PARTITIONS
        assert 2 not in leaders
        load.wait_for_ack(load.count + 100)
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, "vanishing"))
    broker.kill9()
    away.rename(dirs[1])
    broker.start()
    wait_for_in_sync(broker, "vanishing", 3)
    for partition in range(PARTITIONS):
        first, *others = (log_bytes(folder, "vanishing", partition) for folder in dirs)
        assert all(other == first for other in others), f"partition {partition}: replicas differ"
    judge(load, read_all(broker.bootstrap, "vanishing"))
    broker.stop()


def make_twenty_records(broker: KBroker, topic: str) -> None:
    """In the only partition of a new topic, of two replicas."""
    create(broker, topic, 1, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(120) == 0


def test_deleted_records_stay_deleted_under_the_next_leader(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, _ = start_sites(broker_factory, tmp_path, 2)
    make_twenty_records(broker, "cut")
    admin, place = AdminClient({"bootstrap.servers": broker.bootstrap}), TopicPartition("cut", 0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    for offset in (4, 9, 13):
        wait_for_in_sync(broker, "cut", 2)
        deleted = admin.delete_records([TopicPartition("cut", 0, offset)])[place]
        assert deleted.result(120).low_watermark == offset
        leader, _, _ = described(broker, "cut")[0]
        broker.kill9_running(f"io {leader - 1}")
        eventually(lambda gone=leader: described(broker, "cut")[0][0] not in (gone, -1))  # type: ignore[misc]
        assert watermarks(consumer, place) == (offset, 20)
    consumer.close()
    wait_for_in_sync(broker, "cut", 2)  # a stop while logs are being opened again is not clean
    broker.stop()


def test_deleted_records_stay_deleted_when_all_is_killed_and_the_leaders_site_is_lost(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """At the moment of the answer both replicas have it on disk."""
    broker, dirs = start_sites(broker_factory, tmp_path, 2)
    make_twenty_records(broker, "cut")
    wait_for_in_sync(broker, "cut", 2)
    admin, place = AdminClient({"bootstrap.servers": broker.bootstrap}), TopicPartition("cut", 0, 9)
    deleted = admin.delete_records([place])[place]
    leader, _, _ = described(broker, "cut")[0]
    assert deleted.result(120).low_watermark == 9
    broker.kill9()
    dirs[leader - 1].rename(tmp_path / "lost")
    broker.start()
    eventually(lambda: described(broker, "cut")[0][0] not in (leader, -1))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "looks"})
    assert watermarks(consumer, place) == (9, 20)
    consumer.close()
    broker.stop()
