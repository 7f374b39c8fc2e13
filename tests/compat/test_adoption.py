"""A log directory that Apache Kafka wrote is served by kbroker, and goes back to Apache Kafka
afterwards."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import fetch as fe
from kbroker.protocol.messages import find_coordinator as fc
from kbroker.protocol.messages import init_producer_id as ip
from kbroker.protocol.messages import metadata as md
from kbroker.protocol.messages import offset_commit as oc
from kbroker.protocol.messages import offset_fetch as of
from kbroker.protocol.messages import produce as pr
from kbroker.protocol.records import build_batch, read_all
from tests.compat import admin_cases as admin
from tests.compat import config_cases
from tests.compat.raw import SocketPeer
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


def until(ask: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
    """Ask until the answer is good: a broker that has just started answers retriable errors
    first."""
    deadline = time.monotonic() + 90
    while not good(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer


def produce(peer: SocketPeer, keys: list[bytes], sequence: int) -> None:
    """One idempotent batch to orders-1."""
    producer = (peer_producer(peer), 0, sequence)
    now_ms = time.time_ns() // 1_000_000  # producers of old records are forgotten when a log is loaded
    batch = build_batch([(key, b"v", (), now_ms) for key in keys], producer=producer)
    data = pr.TopicProduceData("orders", partition_data=[pr.PartitionProduceData(1, batch)])
    request = pr.ProduceRequest(None, -1, 10_000, [data])
    until(
        lambda: peer.ask(K.PRODUCE, 9, request),
        lambda answer: answer.responses[0].partition_responses[0].error_code == 0,
    )


_producers: dict[str, int] = {}


def peer_producer(peer: SocketPeer) -> int:
    """One producer id for the whole test: the first broker's."""
    if "id" not in _producers:
        request = ip.InitProducerIdRequest(None, 1000)
        answer = until(
            lambda: peer.ask(K.INIT_PRODUCER_ID, 4, request), lambda answer: answer.error_code == 0
        )
        _producers["id"] = answer.producer_id
    return _producers["id"]


def keys_of(peer: SocketPeer) -> list[bytes | None]:
    """Keys of every record in orders-1."""
    partition = fe.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fe.FetchRequest(
        replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20,
        topics=[fe.FetchTopic(topic="orders", partitions=[partition])],
    )  # fmt: skip
    answer = until(
        lambda: peer.ask(K.FETCH, 12, request),
        lambda answer: answer.responses[0].partitions[0].error_code == 0,
    )
    return [record.key for record in read_all(answer.responses[0].partitions[0].records)]


def commit(peer: SocketPeer, offset: int) -> None:
    partition = oc.OffsetCommitRequestPartition(1, offset, -1, "noted")
    topics = [oc.OffsetCommitRequestTopic("orders", partitions=[partition])]
    request = oc.OffsetCommitRequest("g", -1, "", topics=topics)
    find = fc.FindCoordinatorRequest("g", 0, ["g"])
    until(lambda: peer.ask(K.FIND_COORDINATOR, 4, find), lambda found: found.coordinators[0].error_code == 0)
    until(
        lambda: peer.ask(K.OFFSET_COMMIT, 9, request),
        lambda done: done.topics[0].partitions[0].error_code == 0,
    )


def committed(peer: SocketPeer) -> int:
    topics = [of.OffsetFetchRequestTopics("orders", partition_indexes=[1])]
    request = of.OffsetFetchRequest(groups=[of.OffsetFetchRequestGroup("g", topics=topics)])
    answer = until(
        lambda: peer.ask(K.OFFSET_FETCH, 8, request), lambda found: found.groups[0].error_code == 0
    )
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


def topics_of(peer: SocketPeer) -> dict[str, tuple[bytes, int]]:
    answer: Any = peer.ask(K.METADATA, 12, md.MetadataRequest(None))
    return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in answer.topics}


def retention(peer: SocketPeer) -> tuple[str, int]:
    request = config_cases.described(config_cases.TOPIC, "orders", ["retention.ms"])
    answer: Any = peer.ask(K.DESCRIBE_CONFIGS, 4, request)
    (config,) = answer.results[0].configs
    return config.value, config.config_source


def test_a_log_directory_moves_to_kbroker_and_back(kafka_jars: str, tmp_path: Path) -> None:
    _producers.clear()
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.start()
    try:
        first = SocketPeer(kafka.port)
        spec = admin.topic("orders", 2, configs={"retention.ms": "-1"})
        first.ask(K.CREATE_TOPICS, 7, admin.create(spec))
        produce(first, [b"a", b"b"], 0)
        commit(first, 1)
        topics = topics_of(first)
    finally:
        kafka.stop()

    settings = {"log.dirs": str(kafka.log_dir), "offsets.topic.num.partitions": "4"}
    node = KBroker(tmp_path / "kbroker", settings)
    node.start()
    try:
        second = SocketPeer(int(node.bootstrap.rpartition(":")[2]))
        assert topics_of(second) == topics
        assert retention(second) == ("-1", 1)
        assert keys_of(second) == [b"a", b"b"]
        assert committed(second) == 1
        produce(second, [b"a", b"b"], 0)  # a retry of what Kafka has: the sequence is remembered
        produce(second, [b"c"], 2)
        assert keys_of(second) == [b"a", b"b", b"c"]
        fresh: Any = second.ask(K.INIT_PRODUCER_ID, 4, ip.InitProducerIdRequest(None, 1000))
        assert fresh.producer_id > peer_producer(second)
        commit(second, 2)
    finally:
        node.stop()

    kafka.start()
    try:
        third = SocketPeer(kafka.port)
        produce(third, [b"d"], 3)
        assert keys_of(third) == [b"a", b"b", b"c", b"d"]
        assert committed(third) == 2
    finally:
        kafka.stop()
