"""Dead letters of share groups, by a share consumer of librdkafka and by Java's."""

import time
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Consumer,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.compat.group_clients import create_topic, produce
from tests.conftest import BrokerFactory
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape
from tests.peer.tools import run_tool

pytestmark = pytest.mark.compat

GROUP = "team"
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLE = "errors.deadletterqueue.group.enable"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
WAIT_S = 60

Headers = dict[str, bytes]


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    """A broker with a topic whose share group begins at the start and has dead letters."""
    node = broker_factory({AUTO_CREATE: "true"})
    create_topic(node, "shared", 2)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    letters = NewTopic("dlq.team", 2, 1, config={ENABLE: "true"})
    admin.create_topics([letters])["dlq.team"].result()
    set_configs(
        node.bootstrap, ResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest", NAME: "dlq.team"}
    )
    return node


def share(
    node: KBroker, kind: Callable[[Message], AcknowledgeType], enough: Callable[[list[Message]], bool]
) -> None:
    """Consume until what was delivered is enough."""
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    with ShareConsumer(settings) as consumer:
        consumer.subscribe(["shared"])
        delivered: list[Message] = []
        deadline = time.monotonic() + WAIT_S
        while not enough(delivered):
            assert time.monotonic() < deadline, len(delivered)
            for message in consumer.poll(0.3) or ():
                assert message.error() is None, message.error()
                delivered.append(message)
                consumer.acknowledge(message, kind(message))
            assert not any((consumer.commit_sync() or {}).values())


def letters(node: KBroker, count: int, topic: str = "dlq.team", partitions: int = 2) -> list[Message]:
    """All that are there, and at least as many."""
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "reader", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while True:
        message = consumer.poll(1.0)
        if message is None:
            if len(found) >= count:
                break
            assert time.monotonic() < deadline, len(found)
        else:
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


def headers(message: Message) -> Headers:
    listed: Sequence[tuple[str, bytes]] = message.headers() or []
    return {key.removeprefix("__dlq.errors."): value for key, value in listed}


def test_rejected_records_and_those_released_too_often_get_letters(node: KBroker) -> None:
    produce(node, "shared", 30)
    rejected, released = {b"value 3", b"value 12"}, {b"value 7"}

    def kind(message: Message) -> AcknowledgeType:
        value = message.value()
        if value in rejected:
            return AcknowledgeType.REJECT
        return AcknowledgeType.RELEASE if value in released else AcknowledgeType.ACCEPT

    delivered: list[Message] = []

    def enough(so_far: list[Message]) -> bool:
        delivered[:] = so_far
        return len(so_far) == 30 + 4

    share(node, kind, enough)
    originals = {
        (str(each.partition()).encode(), str(each.offset()).encode()): each.value() for each in delivered
    }
    found = letters(node, 3)
    assert len(found) == 3
    for each in found:
        assert (each.key(), each.value()) == (None, None)
        context = headers(each)
        assert str(each.partition()).encode() == context["partition"]
        value = originals[context["partition"], context["offset"]]
        assert (context["topic"], context["group"]) == (b"shared", b"team")
        assert value in rejected | released
        assert context["delivery.count"] == (b"1" if value in rejected else b"5")
        why = b"rejected by client" if value in rejected else b"exceeded the threshold"
        assert why in context["message"]
    eventually(lambda: written(node) == 3)


def written(node: KBroker) -> float:
    """Letters that /metrics counts; 0 before the group has any."""
    return scrape(node).value("kbroker_group_dead_letters_total", group=GROUP, topic="shared")


def test_metrics_count_letters_from_0_and_a_topic_that_cannot_take_them(node: KBroker) -> None:
    produce(node, "shared", 10)
    share(node, lambda _: AcknowledgeType.ACCEPT, lambda delivered: len(delivered) == 10)
    eventually(lambda: written(node) == 0)
    set_configs(node.bootstrap, ResourceType.TOPIC, "dlq.team", {ENABLE: "false"})
    produce(node, "shared", 1)
    share(node, lambda _: AcknowledgeType.REJECT, lambda delivered: len(delivered) == 1)

    def refused() -> float:
        return scrape(node).value("kbroker_dead_letter_failures_total", reason="unusable_topic")

    eventually(lambda: refused() == 1)
    assert written(node) == 0
    assert scrape(node).value("kbroker_dead_letters_waiting") == 0


def test_a_letter_has_a_copy_when_the_group_wants_it(node: KBroker) -> None:
    set_configs(node.bootstrap, ResourceType.GROUP, GROUP, {COPY: "true"})
    produce(node, "shared", 10)
    share(node, lambda _: AcknowledgeType.REJECT, lambda delivered: len(delivered) == 10)
    found = letters(node, 10)
    assert {(each.key(), each.value()) for each in found} == {
        (b"%d" % number, b"value %d" % number) for number in range(10)
    }
    assert {headers(each)["topic"] for each in found} == {b"shared"}
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    described = admin.describe_configs([ConfigResource(ResourceType.GROUP, GROUP)])
    (configs,) = [future.result() for future in described.values()]
    assert (configs[COPY].value, configs[NAME].value) == ("true", "dlq.team")


def test_a_topic_that_is_missing_is_created_when_the_broker_may(node: KBroker) -> None:
    set_configs(node.bootstrap, ResourceType.GROUP, GROUP, {NAME: "dlq.new"})
    produce(node, "shared", 4)
    share(node, lambda _: AcknowledgeType.REJECT, lambda delivered: len(delivered) == 4)
    assert len(letters(node, 4, "dlq.new", 1)) == 4


@pytest.mark.parametrize(("name", "value"), [(NAME, "__internal"), (COPY, "perhaps"), ("errors.nope", "1")])
def test_settings_that_are_not_valid_are_refused(node: KBroker, name: str, value: str) -> None:
    with pytest.raises(KafkaException):
        set_configs(node.bootstrap, ResourceType.GROUP, GROUP, {name: value})


@pytest.mark.kafka
def test_the_java_share_consumer_rejects(node: KBroker, kafka_jars: str) -> None:
    produce(node, "shared", 10)
    run_tool(
        CONSOLE, "--bootstrap-server", node.bootstrap, "--topic", "shared", "--group", GROUP,
        "--timeout-ms", "60000", "--max-messages", "10", "--reject",
    )  # fmt: skip
    assert {headers(each)["message"] for each in letters(node, 10)} == {b"Offset rejected by client."}
