"""kill -9 while released records pause: none is lost, and none comes before its pause is over."""

from collections.abc import Callable

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Message,
    Producer,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.crash.share_consumer import GROUP, TOPIC, share
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

COUNT = 20
RELEASED = {b"3", b"4", b"11"}
PAUSE_S = 6.0


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
