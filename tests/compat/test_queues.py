"""Topics whose records expire, and share groups that pause before a retry, by librdkafka."""

import time

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    Consumer,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.compat

TOPIC, GROUP = "mail", "team"
TTL = "kbroker.record.ttl.ms"
OLD_MS = 3_600_000
REFUSED: tuple[tuple[str, dict[str, str], str], ...] = (
    ("bad", {TTL: "-2"}, "must be at least -1"),
    ("bad", {TTL: "soon"}, "kbroker.record.ttl.ms"),
    ("bad", {TTL: "5", "cleanup.policy": "compact"}, "cleanup.policy without delete"),
    ("__share_group_state", {TTL: "5"}, "topic of the broker"),
)


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory({})


def create(node: KBroker, name: str, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()


def alter(node: KBroker, kind: ResourceType, name: str, **settings: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in settings.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result()


def low(node: KBroker) -> int:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "low"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)[0]
    finally:
        consumer.close()


def read(node: KBroker, count: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": node.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])  # below the log start: the client goes to the earliest
    found: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for message in consumer.consume(count, timeout=1):
            assert message.error() is None, message.error()
            found.append(message.value())
    consumer.close()
    return found


def test_old_records_expire_and_young_ones_are_read(node: KBroker) -> None:
    create(node, TOPIC, {TTL: str(OLD_MS // 2)})
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0})
    now_ms = int(time.time() * 1000)
    for number in range(10):
        producer.produce(TOPIC, f"old {number}", timestamp=now_ms - OLD_MS)
    assert producer.flush(30) == 0
    for number in range(5):
        producer.produce(TOPIC, f"young {number}", timestamp=now_ms)
    assert producer.flush(30) == 0
    eventually(lambda: low(node) == 10)
    assert scrape(node).value("kbroker_topic_expired_records_total", topic=TOPIC) == 10
    assert read(node, 5) == [b"young %d" % number for number in range(5)]
    node.restart()
    assert low(node) == 10
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_record_ttl_ms="1")
    eventually(lambda: low(node) == 15)


def test_what_cannot_expire_is_refused(node: KBroker) -> None:
    for topic, settings, why in REFUSED:
        with pytest.raises(KafkaException, match=why):
            create(node, topic, settings)
    create(node, TOPIC, {TTL: "5"})
    with pytest.raises(KafkaException, match="without delete"):
        alter(node, ResourceType.TOPIC, TOPIC, cleanup_policy="compact")


def test_a_released_record_comes_again_after_its_pause_and_others_do_not_wait(node: KBroker) -> None:
    create(node, TOPIC, {})
    alter(
        node, ResourceType.GROUP, GROUP, share_auto_offset_reset="earliest",
        kbroker_share_retry_backoff_ms="1500", kbroker_share_retry_backoff_max_ms="2000",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(20):
        producer.produce(TOPIC, f"{number}")
    assert producer.flush(30) == 0
    released: list[float] = []
    delivered: list[float] = []
    others: dict[bytes | None, float] = {}

    def kind(message: Message) -> AcknowledgeType:
        if message.value() != b"7":
            others[message.value()] = time.time()
            return AcknowledgeType.ACCEPT
        delivered.append(time.time())
        return AcknowledgeType.RELEASE if len(delivered) < 3 else AcknowledgeType.ACCEPT

    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
    }
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + 90
        while len(delivered) < 3 or len(others) < 19:
            assert time.monotonic() < deadline, (delivered, others)
            for message in consumer.poll(0.2) or ():
                assert message.error() is None, message.error()
                before = time.time()
                consumer.acknowledge(message, kind(message))
                if message.value() == b"7":
                    released.append(before)
            assert not any((consumer.commit_sync() or {}).values())
    assert len(others) == 19
    assert delivered[1] - released[0] >= 1.5
    assert delivered[2] - released[1] >= 2.0


def test_pauses_that_cannot_be_are_refused(node: KBroker) -> None:
    with pytest.raises(KafkaException, match="less than or equal to"):
        alter(node, ResourceType.GROUP, GROUP, kbroker_share_retry_backoff_ms="70000")
    with pytest.raises(KafkaException, match="at least 0"):
        alter(node, ResourceType.GROUP, GROUP, kbroker_share_retry_backoff_ms="-1")
