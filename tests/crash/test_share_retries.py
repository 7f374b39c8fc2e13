"""kill -9 while released records pause: none is lost, and none comes before its pause is over."""

from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Message,
    Producer,
)
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ResourceType,
)

from tests.crash.share_consumer import GROUP, TOPIC, share
from tests.peer.configs import set_configs
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

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
    set_configs(broker.bootstrap, ResourceType.GROUP, GROUP, settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, str(number))
    assert producer.flush(120) == 0


@pytest.mark.parametrize("role", ["control", ""])
def test_a_pause_outlasts_a_crash(role: str, broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory({})
    prepare(broker)

    def first(message: Message) -> AcknowledgeType:
        return AcknowledgeType.RELEASE if message.value() in RELEASED else AcknowledgeType.ACCEPT

    delivered = share(broker, first, COUNT)
    if role:
        broker.kill9_running(role)
    else:
        broker.kill9()
        broker.start()
    accepted = sum(value not in RELEASED for value, _ in delivered)
    delivered += share(broker, lambda _: AcknowledgeType.ACCEPT, COUNT - accepted)
    times: dict[bytes | None, list[float]] = defaultdict(list)
    for value, at in delivered:
        times[value].append(at)
    assert set(times) == {b"%d" % number for number in range(COUNT)}
    assert {value for value, moments in times.items() if len(moments) > 1} == RELEASED
    for moments in times.values():
        assert all(later - before >= PAUSE_S for before, later in pairwise(moments))
    broker.stop()
