"""Replicas move between sites under load, a site is lost and comes back, preferred replicas lead
again."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kbroker.config.alter import Op
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages import alter_partition_reassignments as apr
from kbroker.protocol.messages import elect_leaders as el
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.crash.load import PARTITIONS, Load, judge, read_all
from tests.crash.sited import create, described, log_bytes, start_sites, wait_for_in_sync
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


def ask(broker: KBroker, api: ApiKey, version: int, request: Struct) -> Any:
    answer = SocketPeer(int(broker.bootstrap.rpartition(":")[2])).ask(api, version, request)
    assert answer is not None
    return answer


def reassign(broker: KBroker, topic: str, replicas: list[int] | None) -> list[int]:
    """Error code of each partition."""
    parts = [apr.ReassignablePartition(index, replicas) for index in range(PARTITIONS)]
    request = apr.AlterPartitionReassignmentsRequest(topics=[apr.ReassignableTopic(topic, parts)])
    answer = ask(broker, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)
    assert isinstance(answer, apr.AlterPartitionReassignmentsResponse)
    return [partition.error_code for partition in answer.responses[0].partitions]


def wait_until_moved(broker: KBroker) -> None:
    deadline = time.monotonic() + 120
    while ask(broker, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsRequest()).topics:
        assert time.monotonic() < deadline, broker.logs()
        time.sleep(0.05)


def elect(broker: KBroker, topic: str) -> list[int]:
    """Error code of each partition's preferred election."""
    request = el.ElectLeadersRequest(0, [el.TopicPartitions(topic, list(range(PARTITIONS)))])
    answer = ask(broker, ApiKey.ELECT_LEADERS, 2, request)
    assert isinstance(answer, el.ElectLeadersResponse)
    return [result.error_code for result in answer.replica_election_results[0].partition_result]


def preferred_lead(broker: KBroker, topic: str) -> bool:
    """Whether both replicas are in sync and the second site leads, after one more election."""
    if not set(elect(broker, topic)) <= {0, int(ErrorCode.ELECTION_NOT_NEEDED)}:
        return False
    return all(leader == 2 and len(in_sync) == 2 for leader, _, in_sync in described(broker, topic).values())


def test_replicas_move_under_load(broker_factory: Callable[..., KBroker], tmp_path: Path) -> None:
    """From one replica to three, to two other sites, and on to one: the log is the same all the
    way."""
    broker, dirs = start_sites(broker_factory, tmp_path, 3, {"log.segment.bytes": "1048576"})
    create(broker, "moving", PARTITIONS, 1)
    load = Load(broker.bootstrap, "moving")
    load.start()
    try:
        for target in ([1, 2, 3], [3, 2], [1], [2, 1]):
            load.wait_for_ack(load.count)
            assert reassign(broker, "moving", target) == [0] * PARTITIONS
            wait_until_moved(broker)
            wait_for_in_sync(broker, "moving", len(target))
            for leader, replicas, in_sync in described(broker, "moving").values():
                assert replicas == target
                assert in_sync == sorted(target)
                assert leader in target
        victim = "io 1"
        broker.kill9_running(victim)
        load.wait_for_ack(load.count)
        # control may not have noticed the death yet; and the worker that came back may still have
        # to say so of a replica that is in sync all along
        eventually(lambda: f"{victim} died" in broker.logs(1 << 20))
        eventually(lambda: preferred_lead(broker, "moving"))
    finally:
        load.stop()
    judge(load, read_all(broker.bootstrap, "moving"))
    assert reassign(broker, "moving", None) == [int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)] * PARTITIONS
    assert reassign(broker, "moving", [2, 9]) == [int(ErrorCode.INVALID_REPLICA_ASSIGNMENT)] * PARTITIONS
    broker.restart()
    wait_for_in_sync(broker, "moving", 2)
    for partition in range(PARTITIONS):
        assert log_bytes(dirs[0], "moving", partition) == log_bytes(dirs[1], "moving", partition)
        assert not (dirs[2] / f"moving-{partition}").exists()
    broker.stop()


RATE = 2_000_000
SLOW_RATE = 50_000
"""At it a copy takes minutes: it is not ready before the rate changes on a busy machine, too."""
BYTES = 8_000_000


def set_configs(broker: KBroker, kind: int, name: str, values: dict[str, str | None]) -> int:
    """The error code. None drops a value, as the tools do after a reassignment."""
    configs = [
        iac.AlterableConfig(key, Op.DELETE if value is None else Op.SET, value)
        for key, value in values.items()
    ]
    request = iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(kind, name, configs)])
    answer = ask(broker, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert isinstance(answer, iac.IncrementalAlterConfigsResponse)
    return answer.responses[0].error_code


@pytest.mark.parametrize(("side", "node"), [("leader", "1"), ("follower", "2")])
def test_a_throttled_replica_is_copied_no_faster_than_its_node_may(
    side: str, node: str, broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """And the throttle can be removed while it copies."""
    broker, _ = start_sites(broker_factory, tmp_path, 2)
    create(broker, "slow", PARTITIONS, 1)
    reassign(broker, "slow", [1])
    wait_until_moved(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for number in range(BYTES // 10_000):
        producer.produce("slow", b"x" * 10_000, partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    assert set_configs(broker, 4, "2", {"log.cleaner.threads": "2"}) == ErrorCode.INVALID_REQUEST
    rate = RATE if side == "leader" else SLOW_RATE
    assert set_configs(broker, 4, node, {f"{side}.replication.throttled.rate": str(rate)}) == 0
    assert set_configs(broker, 2, "slow", {f"{side}.replication.throttled.replicas": "*"}) == 0
    began = time.monotonic()
    reassign(broker, "slow", [1, 2])
    in_front = PARTITIONS * (1 << 20)  # a buffer of each partition may go before it counts
    if side == "leader":
        wait_for_in_sync(broker, "slow", 2)
        assert time.monotonic() - began > (BYTES - in_front) / RATE
    else:
        assert set_configs(broker, 4, node, {f"{side}.replication.throttled.rate": "0"}) == 0
        time.sleep(0.5)
        assert [len(in_sync) for _, _, in_sync in described(broker, "slow").values()] == [1] * PARTITIONS
        assert set_configs(broker, 4, node, {f"{side}.replication.throttled.rate": None}) == 0
        wait_for_in_sync(broker, "slow", 2)
    broker.stop()


def test_preferred_replicas_lead_again_by_themselves(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    broker, _ = start_sites(broker_factory, tmp_path, 2, {"leader.imbalance.check.interval.seconds": "1"})
    create(broker, "balanced", PARTITIONS, 2)
    preferred = {index: replicas[0] for index, (_, replicas, _) in described(broker, "balanced").items()}
    broker.kill9_running("io 0")
    deadline = time.monotonic() + 60
    while "led by their preferred replica again" not in broker.logs(1 << 20):
        assert time.monotonic() < deadline, broker.logs()
        time.sleep(0.05)
    wait_for_in_sync(broker, "balanced", 2)
    eventually(lambda: {index: each[0] for index, each in described(broker, "balanced").items()} == preferred)
    broker.stop()


def test_a_log_that_begins_within_a_batch_is_copied(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """DeleteRecords goes by records; a copy begins with the batch that holds the first one."""
    broker, _ = start_sites(broker_factory, tmp_path, 2)
    create(broker, "cut", PARTITIONS, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 500})
    for number in range(20):
        for partition in range(PARTITIONS):
            producer.produce("cut", str(number), partition=partition)
        if number in (9, 19):
            assert producer.flush(120) == 0
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_records([TopicPartition("cut", p, 15) for p in range(PARTITIONS)]).values():
        assert done.result(120).low_watermark == 15
    assert reassign(broker, "cut", [1, 2]) == [0] * PARTITIONS
    wait_for_in_sync(broker, "cut", 2)
    for target in ([2], [1, 2], [1]):
        assert reassign(broker, "cut", target) == [0] * PARTITIONS
        wait_until_moved(broker)
        assert [replicas for _, replicas, _ in described(broker, "cut").values()] == [target] * PARTITIONS
        kept = {offset: offset for offset in range(15, 20)}
        assert read_all(broker.bootstrap, "cut") == dict.fromkeys(range(PARTITIONS), kept)
    broker.stop()
