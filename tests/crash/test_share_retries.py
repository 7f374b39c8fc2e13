"""kill -9 while released records pause: none is lost, and none comes before its pause is over."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Message,
    Producer,
    ShareConsumer,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.crash.seeds import UNRAISABLE
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300), UNRAISABLE]

TOPIC, GROUP = "tasks", "team"
COUNT = 20
RELEASED = {b"3", b"4", b"11"}
PAUSE_S = 6.0
WAIT_S = 90


def prepare(broker: KBroker) -> None:
    """A topic with records, and a group that pauses."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
    pause_ms = str(int(PAUSE_S * 1000))
    settings = {
        "share.auto.offset.reset": "earliest",
        "kbroker.share.retry.backoff.ms": pause_ms,
        "kbroker.share.retry.backoff.max.ms": pause_ms,
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(30) == 0


def share(
    broker: KBroker, kind: Callable[[Message], AcknowledgeType], count: int
) -> list[tuple[bytes | None, float]]:
    """Take so many deliveries and acknowledge them: (value, when it came)."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    found: list[tuple[bytes | None, float]] = []
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < deadline, found
            for message in consumer.poll(0.3) or ():
                assert message.error() is None, message.error()
                found.append((message.value(), time.time()))
                consumer.acknowledge(message, kind(message))
            assert not any((consumer.commit_sync() or {}).values())
    return found


@pytest.mark.parametrize("role", ["control", ""])
def test_a_pause_outlasts_a_crash(role: str, broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory({})
    prepare(broker)

    def first(message: Message) -> AcknowledgeType:
        return AcknowledgeType.RELEASE if message.value() in RELEASED else AcknowledgeType.ACCEPT

    delivered = share(broker, first, COUNT)
    assert sorted(delivered) == sorted(dict(delivered).items())  # nothing came twice
    if role:
        broker.kill9_running(role)
    else:
        broker.kill9()
        broker.start()
    again = share(broker, lambda _: AcknowledgeType.ACCEPT, len(RELEASED))
    assert {value for value, _ in again} == RELEASED
    for value, at in again:
        assert at - dict(delivered)[value] >= PAUSE_S
    broker.stop()
