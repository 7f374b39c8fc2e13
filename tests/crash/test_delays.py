"""kill -9 while records wait for their time: each comes once, and none sooner."""

import time
from collections.abc import Callable

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

COUNT = 30
MAX_S = 12


def seconds(number: int) -> int:
    """The delay of a record: every third is due at once, the others later and in no order."""
    return 0 if number % 3 == 0 else 6 + number * 7 % (MAX_S - 5)


def prepare(broker: KBroker) -> dict[bytes, float]:
    """A topic with records, and when each is due."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config={"kbroker.delivery.delay.ms": "0"})])[TOPIC].result()
    set_configs(broker.bootstrap, ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    began_ms = int(time.time() * 1000)
    due: dict[bytes, float] = {}
    for number in range(COUNT):
        value, at_ms = b"%d" % number, began_ms + 1000 * seconds(number)
        producer.produce(TOPIC, value, headers=[("kbroker-deliver-at", b"%d" % at_ms)])
        due[value] = at_ms / 1000
    assert producer.flush(120) == 0
    return due


def accept(_: Message) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


@pytest.mark.parametrize("role", ["control", ""])
def test_a_delay_outlasts_a_crash(role: str, broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory({})
    due = prepare(broker)
    first = share(broker, accept, COUNT // 3)
    ended = time.time()  # on a busy machine later records may be due before the consumer is there
    assert {value for value, _ in first} <= {value for value, at in due.items() if at <= ended}
    if role:
        broker.kill9_running(role)
    else:
        broker.kill9()
        broker.start()
    rest = share(broker, accept, COUNT - len(first))
    values = [value for value, _ in (*first, *rest)]
    assert sorted(due) == sorted(value for value in values if value is not None)
    for value, at in (*first, *rest):
        assert value is not None
        assert at >= due[value]
    broker.stop()
