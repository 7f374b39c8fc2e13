"""Produce and Fetch beside Apache Kafka: the same raw requests, answers compared field by field."""

import time
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import ZERO_UUID
from tests.compat.raw import LEVELLED, Case, Peer, SocketPeer, compare, run
from tests.net.produce.compressed_cases import others, same_answers
from tests.net.produce.produce_cases import CASES, GOOD
from tests.net.requests import now_ms
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = {
    "plain": {"retention.ms": "-1"},  # the tests use old timestamps
    "compacted": {"cleanup.policy": "compact"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "gzip": {"compression.type": "gzip"},
    "small": {"max.message.bytes": "200"},
    "durable": {"min.insync.replicas": "2"},
}


@pytest.fixture(scope="module")
def peers(fresh_kafka: ApacheKafka, broker: KBroker) -> tuple[SocketPeer, SocketPeer]:
    """Apache Kafka and kbroker with the same topics."""
    made = SocketPeer(fresh_kafka.port), SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    topics = [
        CreatableTopic(name, 2, 1, [], [CreatableTopicConfig(*item) for item in configs.items()])
        for name, configs in TOPICS.items()
    ]
    for peer in made:
        answer: Any = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 30000))
        assert {topic.error_code for topic in answer.topics} <= {0, 36}
    return made


def produce_case(
    name: str,
    data: bytes | None,
    versions: tuple[int, int],
    topic: str = "plain",
    acks: int = -1,
    partition: int = 0,
) -> Case:
    def build(peer: Peer, version: int) -> ProduceRequest:
        topic_id = peer.topic_id(topic) if version >= 13 and not topic.startswith("no-") else b"\7" * 16
        parts = [PartitionProduceData(partition, data)]
        return ProduceRequest(None, acks, 5000, [TopicProduceData(topic, topic_id, parts)])

    times = {"log_append_time_ms"} | ({"batch_index_error_message"} if name.startswith("late") else set())
    return Case(name, ApiKey.PRODUCE, versions, build, levelled=LEVELLED | times)


def empty_topics_case(name: str, *topics: tuple[str, bytes | None]) -> Case:
    """Of topics with one batch, or without partitions."""

    def build(peer: Peer, version: int) -> ProduceRequest:
        named = []
        for topic, data in topics:
            topic_id = peer.topic_id(topic) if version >= 13 and not topic.startswith("no-") else b"\7" * 16
            parts = [] if data is None else [PartitionProduceData(1, data)]
            named.append(TopicProduceData(topic, topic_id, parts))
        return ProduceRequest(None, -1, 5000, named)

    return Case(name, ApiKey.PRODUCE, (3, 13), build)


def batch_of(*records: tuple[bytes | None, int], codec: Codec = Codec.NONE) -> bytes:
    return build_batch([(key, b"value", (), at) for key, at in records], codec=codec)


def produce_cases() -> list[Case]:
    late = now_ms() + 7_200_000
    good = [
        produce_case(name, data, (version, version) if version < 7 else (7, 13))
        for name, (data, version, _) in CASES.items()
        if data is not None  # Apache Kafka 4.3.1 never answers that
    ]
    return [
        *good,
        produce_case("before zstd", GOOD, (3, 6)),
        produce_case("unknown topic", GOOD, (3, 13), "no-such-topic"),
        produce_case("unknown partition", GOOD, (3, 13), partition=9),
        produce_case("negative partition", GOOD, (3, 13), partition=-1),
        produce_case("acks 2", GOOD, (3, 13), acks=2),
        produce_case("acks 1", GOOD, (3, 13), acks=1),
        produce_case("too large", batch_of((b"k" * 300, now_ms())), (3, 13), "small"),
        produce_case("min insync", GOOD, (3, 13), "durable"),
        produce_case("null key", batch_of((None, now_ms()), (b"k", now_ms())), (3, 13), "compacted"),
        produce_case("null key gzip", batch_of((None, now_ms()), codec=Codec.GZIP), (7, 13), "compacted"),
        produce_case("late", batch_of((b"k", now_ms()), (b"k", late)), (3, 13)),
        produce_case("late lz4", batch_of((b"k", now_ms()), (b"k", late), codec=Codec.LZ4), (3, 13)),
        produce_case("late and null", batch_of((None, now_ms()), (b"k", late)), (3, 13), "compacted"),
        produce_case("append time", batch_of((b"k", late)), (3, 13), "append-time"),
        produce_case("recompressed", batch_of((b"k", now_ms()), codec=Codec.LZ4), (3, 13), "gzip"),
        produce_case("internal", GOOD, (3, 12), "__consumer_offsets"),
        empty_topics_case("no topics"),
        empty_topics_case("a topic without partitions", ("plain", None)),
        empty_topics_case("an unknown topic without partitions", ("no-such-topic", None)),
        empty_topics_case("and others", ("small", None), ("plain", GOOD), ("gzip", None)),
    ]


def test_produce_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer]) -> None:
    kafka, kbroker = peers
    assert run(produce_cases(), kafka, kbroker) == {}


def init_producer(peer: SocketPeer, transactional_id: str) -> tuple[int, int]:
    """Producer id and epoch of a transactional id."""
    peer.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(transactional_id, 1))
    deadline = time.monotonic() + 60
    while True:
        request = InitProducerIdRequest(transactional_id, 60_000)
        answer: Any = peer.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        assert time.monotonic() < deadline, answer.error_code
        time.sleep(0.2)


TWO_PRODUCERS = {
    "two ids": ((0, 0), (1, 0), 1, False, -1),
    "two epochs": ((0, 0), (0, 1), 1, False, -1),
    "one id": ((0, 0), (0, 0), 1, False, -1),
    "two ids, the partition of one is unknown": ((0, 0), (1, 0), 9, False, -1),
    "two ids, two batches of one": ((0, 0), (1, 0), 1, True, -1),
    "two ids, acks 2": ((0, 0), (1, 0), 1, False, 2),
    "two ids, acks 0": ((0, 0), (1, 0), 1, False, 0),
}
"""Two batches: which producer and how much newer its epoch is, of the first and of the second; the
partition of the second; whether it is there twice; acks."""


@pytest.mark.parametrize("version", [3, 7, 8, 9, 11])
def test_batches_of_two_transactional_producers_are_refused_the_same_way(
    peers: tuple[SocketPeer, SocketPeer], version: int
) -> None:
    """Up to version 11, in which the partitions of a transaction are added before."""
    known = {peer.port: [init_producer(peer, f"{version}-{number}") for number in (0, 1)] for peer in peers}
    records = [(b"k", b"v", (), now_ms())]

    def case(name: str) -> Case:
        first, second, partition, twice, acks = TWO_PRODUCERS[name]

        def build(peer: Any, _: int) -> ProduceRequest:
            parts = []
            for at, (number, newer) in ((0, first), (partition, second)):
                producer_id, epoch = known[peer.port][number]
                data = build_batch(records, producer=(producer_id, epoch + newer, 0), transactional=True)
                parts.append(PartitionProduceData(at, data * (1 + (twice and at == partition))))
            return ProduceRequest(f"{version}-0", acks, 5000, [TopicProduceData("plain", ZERO_UUID, parts)])

        return Case(name, ApiKey.PRODUCE, (version, version), build, same_text=True)

    kafka, kbroker = peers
    assert run([case(name) for name in TWO_PRODUCERS], kafka, kbroker) == {}


def compressed_cases() -> list[Case]:
    """Batches of each codec whose records are not what the header says, to topics of every kind."""
    found = []
    for codec in Codec:
        batches = {name: data for name, (data, _) in same_answers(codec).items()} | others(codec)
        for name, data in batches.items():
            for topic in ("plain", "compacted", "append-time", "gzip"):
                found.append(produce_case(f"{codec.name} {name}, {topic}", data, (9, 9), topic))
    return found


def test_compressed_records_are_checked_the_same_way(peers: tuple[SocketPeer, SocketPeer]) -> None:
    kafka, kbroker = peers
    assert run(compressed_cases(), kafka, kbroker) == {}


def fetch_case(
    name: str, versions: tuple[int, int], offset: int = 0, topic: str = "plain", **how: Any
) -> Case:
    session = how.pop("session", (0, -1))
    partition = how.pop("partition", 1)
    epoch = how.pop("epoch", -1)
    last_epoch = how.pop("last_epoch", -1)
    most = how.pop("partition_max_bytes", 1 << 20)

    def build(peer: Peer, version: int) -> FetchRequest:
        topic_id = peer.topic_id(topic) if version >= 13 and not topic.startswith("no-") else b"\7" * 16
        part = FetchPartition(partition, epoch, offset, last_epoch, partition_max_bytes=most)
        settings = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, **how}
        return FetchRequest(
            **settings,
            session_id=session[0],
            session_epoch=session[1],
            topics=[FetchTopic(topic, topic_id, [part])],
        )

    levelled = frozenset({"topic_id", "session_id", "port", "host"})
    return Case(name, ApiKey.FETCH, versions, build, levelled=levelled)


def no_topics(_: Peer, __: int) -> FetchRequest:
    return FetchRequest(max_wait_ms=100, session_id=0, session_epoch=0)


def fetch_cases() -> list[Case]:
    return [
        fetch_case("first", (4, 18)),
        fetch_case("from 3", (4, 18), 3),
        fetch_case("one byte", (4, 18), 1, partition_max_bytes=1),
        fetch_case("max bytes 1", (4, 18), 1, max_bytes=1),
        fetch_case("cut in a batch", (4, 18), 0, partition_max_bytes=len(GOOD) * 2 + 10),
        fetch_case("at the end", (4, 18), 20),
        fetch_case("behind the end", (4, 18), 21),
        fetch_case("negative", (4, 18), -1),
        fetch_case("committed", (4, 18), 2, isolation_level=1),
        fetch_case("committed at the end", (4, 18), 20, isolation_level=1),
        fetch_case("unknown topic", (4, 18), topic="no-topic"),
        fetch_case("unknown partition", (4, 18), partition=7),
        fetch_case("epoch too new", (9, 18), epoch=99),
        fetch_case("last epoch", (12, 18), 2, last_epoch=0),
        fetch_case("last epoch too new", (12, 18), 2, last_epoch=42),
        fetch_case("new session", (7, 18), session=(0, 0)),
        Case(
            "new session without topics", ApiKey.FETCH, (7, 18), no_topics, levelled=frozenset({"session_id"})
        ),
        fetch_case("no such session", (7, 18), session=(77, 3)),
        fetch_case("empty min bytes 0", (4, 18), 20, min_bytes=0),
        fetch_case("no wait", (4, 18), 20, max_wait_ms=0),
    ]


def test_fetch_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer]) -> None:
    stamped = [(b"k", b"value", (), 1_700_000_000_000)] * 2
    for peer in peers:
        for _ in range(10):
            case = produce_case("fill", build_batch(stamped), (9, 9), partition=1)
            answer: Any = peer.ask(ApiKey.PRODUCE, 9, case.build(peer, 9))
            assert answer.responses[0].partition_responses[0].error_code == 0
    kafka, kbroker = peers
    assert run(fetch_cases(), kafka, kbroker) == {}


def test_an_incremental_session_returns_the_same_changes(peers: tuple[SocketPeer, SocketPeer]) -> None:
    from contextlib import closing
    from socket import create_connection

    from kbroker.protocol.frame import encode_request
    from tests.compat.raw import differences, plain
    from tests.net.doubles import ask
    from tests.net.requests import read_fetch

    reported = []
    for peer in peers:
        answers = []
        with closing(create_connection(("127.0.0.1", peer.port), timeout=20)) as link:

            def send(session: tuple[int, int], parts: dict[int, int], topic: str = "compacted") -> Any:
                expected = [FetchPartition(p, -1, at, partition_max_bytes=1 << 20) for p, at in parts.items()]
                request = FetchRequest(
                    max_wait_ms=50, min_bytes=1, session_id=session[0], session_epoch=session[1],
                    topics=[FetchTopic(topic, partitions=expected)] if expected else [],
                )  # fmt: skip
                return read_fetch(ask(link, encode_request(1, 12, 1, "s", request)), 12)

            produced = batch_of((b"k", 1_700_000_000_000))
            first = send((0, 0), {0: 0, 1: 0})
            number = first.session_id
            answers += [first, send((number, 1), {})]
            peer.ask(ApiKey.PRODUCE, 9, produce_case("", produced, (9, 9), "compacted").build(peer, 9))
            answers += [send((number, 2), {}), send((number, 3), {0: 1}), send((number, 3), {})]
            answers += [send((number, 4), {1: 44}), send((number, 5), {}), send((number, -1), {0: 1})]
            answers += [send((number, 6), {})]
        reported.append(answers)
    case = fetch_case("session", (12, 12))
    for number, (expected, found) in enumerate(zip(*reported, strict=True)):
        assert differences(plain(expected, case), plain(found, case)) == [], f"answer {number}"


def test_compare_sees_a_difference(peers: tuple[SocketPeer, SocketPeer]) -> None:
    kafka, kbroker = peers
    lines = compare(fetch_case("other", (12, 12), 0), 12, kafka, kbroker)
    other = compare(
        Case("x", ApiKey.FETCH, (12, 12), lambda peer, version: fetch_case("y", (12, 12), 0 if peer is kafka else 4)
             .build(peer, version)), 12, kafka, kbroker,
    )  # fmt: skip
    assert not lines
    assert other
