"""Topics whose records expire or are delivered later, and share groups that pause before a retry,
by librdkafka."""

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
    NewTopic,
    ResourceType,
)

from tests.conftest import BrokerFactory
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.compat

TOPIC, GROUP = "mail", "team"
TTL = "kbroker.record.ttl.ms"
DELAY, DELIVER_AT = "kbroker.delivery.delay.ms", "kbroker-deliver-at"
OLD_MS = 3_600_000
LATE_S = 30  # of a delivery on a busy machine
REFUSED: tuple[tuple[str, dict[str, str], str], ...] = (
    ("bad", {TTL: "-2"}, "must be at least -1"),
    ("bad", {TTL: "soon"}, "kbroker.record.ttl.ms"),
    ("bad", {TTL: "5", "cleanup.policy": "compact"}, "cleanup.policy without delete"),
    ("__share_group_state", {TTL: "5"}, "topic of the broker"),
    ("bad", {DELAY: "-2"}, "must be at least -1"),
    ("bad", {DELAY: "604800001"}, "must be no more than 604800000"),
    ("__share_group_state", {DELAY: "5"}, "topic of the broker"),
    ("_schemas", {DELAY: "5"}, "schema registry"),
)


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory({})


def create(node: KBroker, name: str, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()


def alter(node: KBroker, kind: ResourceType, name: str, **settings: str) -> None:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    set_configs(node.bootstrap, kind, name, named)


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
    assert producer.flush(120) == 0
    for number in range(5):
        producer.produce(TOPIC, f"young {number}", timestamp=now_ms)
    assert producer.flush(120) == 0
    eventually(lambda: low(node) == 10)
    assert scrape(node).value("kbroker_topic_expired_records_total", topic=TOPIC) == 10
    assert read(node, 5) == [b"young %d" % number for number in range(5)]
    node.restart()
    assert low(node) == 10
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_record_ttl_ms="1")
    eventually(lambda: low(node) == 15)


def test_expiry_that_cannot_work_is_refused(node: KBroker) -> None:
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
    assert producer.flush(120) == 0
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


def produce_later(node: KBroker, seconds: dict[bytes, float]) -> dict[bytes, float]:
    """Records with headers, in one batch: when each is due."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 100})
    due: dict[bytes, float] = {}
    for value, later in seconds.items():
        at_ms = int((time.time() + later) * 1000)
        producer.produce(TOPIC, value, headers=[(DELIVER_AT, b"%d" % at_ms)])
        due[value] = at_ms / 1000
    assert producer.flush(120) == 0
    return due


def share(node: KBroker, count: int, wait_ms: int = 500) -> list[tuple[bytes, float]]:
    """Take so many records of the group and accept them: (value, when it came)."""
    settings = {
        "bootstrap.servers": node.bootstrap,
        "group.id": GROUP,
        "share.acknowledgement.mode": "explicit",
        "fetch.wait.max.ms": wait_ms,
    }
    found: list[tuple[bytes, float]] = []
    with ShareConsumer(settings) as consumer:
        consumer.subscribe([TOPIC])
        deadline = time.monotonic() + 90
        while len(found) < count:
            assert time.monotonic() < deadline, found
            for message in consumer.poll(0.2) or ():
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found.append((value, time.time()))
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            assert not any((consumer.commit_sync() or {}).values())
    assert len(found) == count
    return found


def test_a_record_with_a_delay_comes_in_its_time_and_others_do_not_wait(node: KBroker) -> None:
    create(node, TOPIC, {DELAY: "0"})
    alter(node, ResourceType.GROUP, GROUP, share_auto_offset_reset="earliest")
    seconds = {b"0": 9.0, b"1": 0.0, b"2": 6.0, b"3": -60.0, b"4": 9.0}
    due = produce_later(node, seconds)
    assert read(node, 5) == list(seconds)  # an ordinary consumer waits for nothing
    found = share(node, 5, wait_ms=20_000)
    assert {value for value, _ in found} == set(seconds)
    began = found[0][1]  # a consumer that starts late finds more that is due
    for value, at in found:
        assert due[value] <= at < max(due[value], began) + LATE_S


def test_a_topics_delay_holds_until_it_is_taken_away(node: KBroker) -> None:
    create(node, TOPIC, {DELAY: "3000"})
    alter(node, ResourceType.GROUP, GROUP, share_auto_offset_reset="earliest")
    producer = Producer({"bootstrap.servers": node.bootstrap})
    sent = time.time()
    for number in range(20):
        producer.produce(TOPIC, f"{number}")
    assert producer.flush(120) == 0
    found = share(node, 20)
    assert [value for value, _ in found] == [b"%d" % number for number in range(20)]
    assert min(at for _, at in found) >= sent + 2.9  # a timestamp is of whole milliseconds
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_delivery_delay_ms="604800000")
    produce_later(node, {b"header": 0})
    producer.produce(TOPIC, "week")
    assert producer.flush(120) == 0
    assert [value for value, _ in share(node, 1)] == [b"header"]
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_delivery_delay_ms="-1")
    assert [value for value, _ in share(node, 1)] == [b"week"]


def test_thousands_that_wait_do_not_hold_up_what_is_due(node: KBroker) -> None:
    create(node, TOPIC, {DELAY: "0"})
    alter(
        node, ResourceType.GROUP, GROUP, share_auto_offset_reset="earliest",
        share_partition_max_record_locks="100",
    )  # fmt: skip
    produce_later(node, {b"later %d" % number: 3600 + number % 7 for number in range(20_000)})
    produce_later(node, {b"now %d" % number: 0 for number in range(500)})
    assert sorted(value for value, _ in share(node, 500)) == sorted(
        b"now %d" % number for number in range(500)
    )


def test_a_record_that_expires_before_its_time_is_passed_over(node: KBroker) -> None:
    create(node, TOPIC, {DELAY: "0"})
    alter(node, ResourceType.GROUP, GROUP, share_auto_offset_reset="earliest")
    produce_later(node, {b"expires": 3600, b"first": 0})
    assert [value for value, _ in share(node, 1)] == [b"first"]
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_record_ttl_ms="10")
    eventually(lambda: low(node) == 2)
    alter(node, ResourceType.TOPIC, TOPIC, kbroker_record_ttl_ms="-1")  # what comes now is to stay
    produce_later(node, {b"second": 0})
    assert [value for value, _ in share(node, 1)] == [b"second"]
