"""Clients under a quota are held near it, and are notified; the others are not; a restart keeps the
quotas."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.compat.clients.client_quotas import peer_of, set_quotas
from tests.compat.quota_cases import entry
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.compat

RATE = 500_000
SECONDS = 3
MAX_S = 90
"""Until a client on a busy machine has sent or read enough."""
WINDOWS = {"quota.window.num": "2", "num.network.threads": "2"}
"""A rate over one to two seconds settles at once."""
BURST = 2 * RATE
"""What may be used at once, before the rate is reached."""
TO_READ = 2 * (SECONDS * RATE + BURST)


def create(broker: KBroker, name: str, partitions: int, client_id: str = "raw") -> Any:
    request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000)
    return peer_of(broker, client_id).ask(ApiKey.CREATE_TOPICS, 7, request)


class Throttles:
    """The longest throttle time that librdkafka has seen."""

    def __init__(self) -> None:
        self.most_ms = 0

    def settings(self, broker: KBroker, client_id: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": broker.bootstrap,
            "client.id": client_id,
            "statistics.interval.ms": 100,
            "stats_cb": self._take,
        }

    def _take(self, text: str) -> None:
        for node in json.loads(text)["brokers"].values():
            self.most_ms = max(self.most_ms, node["throttle"]["max"])


Enough = Callable[[int, int], bool]
"""Whether so many bytes and this throttle time in ms are enough to end after SECONDS."""


def throttled(_: int, throttle_ms: int) -> bool:
    return throttle_ms > 0


def produce_for(
    broker: KBroker, client_id: str, enough: Enough, then: Callable[[], None] | None = None
) -> tuple[int, int, float]:
    """Bytes that were acknowledged, the longest throttle time in ms, and the seconds. then: called
    after a second, from which on it counts."""
    throttles = Throttles()
    acked = 0

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        nonlocal acked
        acked += 0 if error else len(message.value() or b"")

    limits = {"queue.buffering.max.messages": 500, "linger.ms": 5, "batch.size": 50_000}
    producer = confluent_kafka.Producer({**throttles.settings(broker, client_id), **limits})
    start = time.monotonic()
    begin = 0
    while (took := time.monotonic() - start) < SECONDS or (
        took < MAX_S and not enough(acked - begin, throttles.most_ms)
    ):
        if then is not None and took > 1:
            producer.flush(30)
            then()
            then = None
            start, begin = time.monotonic(), acked
        with contextlib.suppress(BufferError):
            producer.produce("t", bytes(5000), on_delivery=delivered)
        producer.poll(0.001)
    sent = acked - begin
    producer.purge()
    producer.flush(1)
    return sent, throttles.most_ms, took


def consume_for(broker: KBroker, client_id: str, enough: Enough) -> tuple[int, int, float]:
    """Bytes that were read, the longest throttle time in ms, and the seconds."""
    throttles = Throttles()
    limits = {"group.id": client_id, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 50_000}
    consumer = confluent_kafka.Consumer({**throttles.settings(broker, client_id), **limits})
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    start = time.monotonic()
    read = 0
    while (took := time.monotonic() - start) < SECONDS or (
        took < MAX_S and not enough(read, throttles.most_ms)
    ):
        read += sum(len(message.value() or b"") for message in consumer.consume(50, 0.1))
    consumer.close()
    return read, throttles.most_ms, took


def test_a_greedy_producer_and_a_greedy_consumer_are_held_near_their_rates(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(WINDOWS)
    create(broker, "t", 1)
    set_quotas(broker, entry({"client-id": "greedy"}, producer_byte_rate=RATE, consumer_byte_rate=RATE))
    sent, throttled_ms, took = produce_for(broker, "greedy", throttled)
    assert sent < took * RATE + BURST
    assert throttled_ms > 0
    free, free_ms, _ = produce_for(broker, "free", lambda count, _: sent + count > TO_READ)
    assert free_ms == 0
    assert sent + free > TO_READ
    read, throttled_ms, took = consume_for(broker, "greedy", throttled)
    assert 0 < read < took * RATE + BURST
    assert throttled_ms > 0


def test_a_producer_that_is_connected_is_held_from_the_moment_that_it_gets_a_quota(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory(WINDOWS)
    create(broker, "t", 1)
    quota = entry({"client-id": "late"}, producer_byte_rate=RATE)
    sent, throttled_ms, took = produce_for(broker, "late", throttled, lambda: set_quotas(broker, quota))
    assert sent < took * RATE + 2 * BURST, "what had been sent before it came to a burst more"
    assert throttled_ms > 0


def test_creating_partitions_faster_than_the_mutation_rate_is_refused(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(
        {"controller.quota.window.num": "2", "controller.quota.window.size.seconds": "10"}
    )
    set_quotas(broker, entry({"user": "ANONYMOUS"}, controller_mutation_rate=0.1))
    assert [create(broker, f"few-{at}", 2).topics[0].error_code for at in range(2)] == [0, 0]
    refused = create(broker, "one-more", 1)
    assert refused.topics[0].error_code == 89  # THROTTLING_QUOTA_EXCEEDED
    assert refused.topics[0].error_message == "The throttling quota has been exceeded."
    assert 0 < refused.throttle_time_ms <= 20_000


def test_request_time_beyond_its_share_is_throttled_for_a_window_at_most(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory()
    set_quotas(broker, entry({"client-id": "busy"}, request_percentage=0.0001))
    reported = [peer_of(broker, "busy").ask(ApiKey.METADATA, 9, MetadataRequest(None)) for _ in range(2)]
    assert 0 < reported[1].throttle_time_ms <= 1000  # type: ignore[union-attr]
    other: Any = peer_of(broker, "idle").ask(ApiKey.METADATA, 9, MetadataRequest(None))
    assert other.throttle_time_ms == 0


def test_an_address_that_connects_too_fast_is_cut_off(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"quota.window.num": "2"})
    set_quotas(broker, entry({"ip": None}, connection_creation_rate=3.0))

    def cut_off() -> bool:
        with contextlib.closing(socket.create_connection(("127.0.0.1", peer_of(broker).port), 60)) as link:
            link.settimeout(0.02)
            try:
                return link.recv(1) == b""
            except TimeoutError:
                return False

    eventually(lambda: any(cut_off() for _ in range(20)))
    held = [socket.create_connection(("127.0.0.1", peer_of(broker).port), 60) for _ in range(12)]
    ended = 0
    for link in held:
        with link:
            link.settimeout(2)
            with contextlib.suppress(TimeoutError):
                ended += link.recv(1) == b""
    assert ended > 0


def test_quotas_survive_a_restart_and_hold_again(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    set_quotas(broker, entry({"user": "ANONYMOUS", "client-id": None}, request_percentage=0.0001))
    broker.restart()
    peer = peer_of(broker, "any")
    answer: Any = peer.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest())
    (found,) = answer.entries
    assert [(value.key, value.value) for value in found.values] == [("request_percentage", 0.0001)]
    peer.ask(ApiKey.METADATA, 9, MetadataRequest(None))
    reported: Any = peer.ask(ApiKey.METADATA, 9, MetadataRequest(None))
    assert reported.throttle_time_ms > 0
