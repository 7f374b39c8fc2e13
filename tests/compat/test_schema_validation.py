"""Topics whose records must name registered schemas: confluent-kafka against a running broker."""

import json
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, record_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.compat.raw import SocketPeer
from tests.compat.registry_requests import LISTEN, ORDER, url_of
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.side_work import beside

pytestmark = pytest.mark.compat

ON = {"confluent.value.schema.validation": "true"}
STRATEGY = "io.confluent.kafka.serializers.subject.RecordNameStrategy"
TWO = LISTEN | {"num.network.threads": "2"}
Answer = tuple[int, str]
FINE: Answer = (0, "")


class Case:
    """A broker with its registry, and clients of both."""

    def __init__(self, broker: KBroker, registered: bool = True) -> None:
        self.broker = broker
        if registered:
            self.registry = SchemaRegistryClient({"url": url_of(broker)})
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def create(self, name: str, **settings: str) -> None:
        config = ON | {key.replace("_", "."): value for key, value in settings.items()}
        self.admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(120)

    def register(self, subject: str, schema: str = ORDER) -> int:
        return int(self.registry.register_schema(subject, Schema(schema, "AVRO")))

    def produce(
        self, topic: str, *values: bytes | None, key: bytes | None = b"k", **more: Any
    ) -> list[Answer]:
        """Codes and texts of one batch."""
        found: list[Answer] = []
        settings = {"bootstrap.servers": self.broker.bootstrap, "linger.ms": 200} | more
        producer = Producer({key.replace("_", "."): value for key, value in settings.items()})
        for value in values:
            producer.produce(topic, value, key, on_delivery=lambda error, _: found.append(_answer(error)))
        assert producer.flush(120) == 0
        return found

    def texts(self, topic: str, *values: bytes) -> list[str]:
        """What the answer to one batch says about its records."""
        batch = build_batch([(b"k", value, (), time.time_ns() // 1_000_000) for value in values])
        parts = [PartitionProduceData(0, batch)]
        request = ProduceRequest(None, -1, 10_000, [TopicProduceData(topic, bytes(16), parts)])
        port = int(self.broker.bootstrap.rpartition(":")[2])
        answer: Any = SocketPeer(port).ask(ApiKey.PRODUCE, 9, request)
        (found,) = answer.responses[0].partition_responses
        return [f"{one.batch_index}: {one.batch_index_error_message}" for one in found.record_errors]

    def values(self, topic: str) -> list[bytes | None]:
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        consumer.subscribe([topic])
        found: list[bytes | None] = []
        while True:
            (message,) = consumer.consume(1, 60)
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                consumer.close()
                return found
            found.append(message.value())


def _answer(error: KafkaError | None) -> Answer:
    return (error.code(), error.str()) if error is not None else FINE


def named(schema_id: int, body: bytes = b"x") -> bytes:
    return b"\0" + schema_id.to_bytes(4) + body


def refused(answers: list[Answer]) -> bool:
    return {code for code, _ in answers} == {KafkaError.INVALID_RECORD}


@pytest.fixture
def case(broker_factory: BrokerFactory) -> Case:
    return Case(broker_factory(TWO))


def test_serialised_values_and_tombstones_pass_and_all_others_are_refused(case: Case) -> None:
    case.create("orders")
    raw = case.produce("orders", b"raw")
    assert refused(raw)
    serializer = AvroSerializer(case.registry, ORDER)
    good = serializer({"id": 7}, SerializationContext("orders", MessageField.VALUE))
    other = case.register("others-value", '"string"')
    assert case.produce("orders", good, None, good) == [FINE] * 3
    for value, text in (
        (b"raw", "The value does not begin with the id of a schema, which topic orders requires"),
        (named(other), f"Schema {other} is not registered for the value in topic orders"),
        (named(99), "Schema 99 is not registered for the value in topic orders"),
        (b"", "The value does not begin"),
    ):
        assert refused(case.produce("orders", value))
        assert text in case.texts("orders", value)[0]
    assert [text[0] for text in case.texts("orders", good, b"raw", b"more")] == ["1", "2"]
    assert case.values("orders") == [good, None, good]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_looked_into(case: Case, codec: str) -> None:
    case.create("orders")
    good = named(case.register("orders-value"), b"words " * 100)
    assert case.produce("orders", *[good] * 500, compression_type=codec) == [FINE] * 500
    answers = case.produce("orders", *[good] * 250, b"raw", *[good] * 249, compression_type=codec)
    assert len(answers) == 500
    assert [number for number, (code, _) in enumerate(answers) if code == KafkaError.INVALID_RECORD]
    assert b"raw" not in case.values("orders")


def test_a_topics_own_codec_and_compaction_stay_as_they_are(case: Case) -> None:
    case.create("orders", compression_type="zstd", cleanup_policy="compact")
    good = named(case.register("orders-value"))
    assert case.produce("orders", good, compression_type="gzip") == [FINE]
    assert refused(case.produce("orders", good, key=None))
    assert refused(case.produce("orders", b"raw"))


def test_keys_and_names_of_records(case: Case) -> None:
    key = case.register("keyed-key", '"string"')
    case.create("keyed", confluent_key_schema_validation="true", confluent_value_schema_validation="false")
    assert case.produce("keyed", b"raw", key=named(key)) == [FINE]
    assert case.produce("keyed", b"raw", key=None) == [FINE]
    assert refused(case.produce("keyed", b"raw", key=b"raw"))
    case.create("records", confluent_value_subject_name_strategy=STRATEGY)
    serializer = AvroSerializer(
        case.registry, ORDER, conf={"subject.name.strategy": record_subject_name_strategy}
    )
    value = serializer({"id": 7}, SerializationContext("records", MessageField.VALUE))
    assert case.registry.get_subjects() == ["Order", "keyed-key"]
    assert case.produce("records", value) == [FINE]
    by_topic = case.register("records-value", ORDER.replace("Order", "Bill"))
    assert refused(case.produce("records", named(by_topic)))


def test_a_transaction_with_a_refused_record_can_be_aborted(case: Case) -> None:
    case.create("orders")
    good = named(case.register("orders-value"))
    settings = {"bootstrap.servers": case.broker.bootstrap, "transactional.id": "t"}
    producer = Producer(settings)
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce("orders", b"raw")
    with pytest.raises(KafkaException):
        producer.commit_transaction(60)
    producer.abort_transaction(60)
    producer = Producer(settings)  # librdkafka continues with a sequence number that was never appended
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce("orders", good)
    producer.commit_transaction(60)
    assert case.values("orders") == [good]


def test_a_setting_may_change_and_holds_after_a_restart(case: Case) -> None:
    good = named(case.register("orders-value"))
    case.create("orders")
    case.broker.kill9()
    case.broker.start()
    assert case.produce("orders", good) == [FINE]
    assert refused(case.produce("orders", b"raw"))
    off = ConfigResource(
        ConfigResource.Type.TOPIC,
        "orders",
        incremental_configs=[
            ConfigEntry(
                "confluent.value.schema.validation",
                "false",
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    admin = AdminClient({"bootstrap.servers": case.broker.bootstrap})
    admin.incremental_alter_configs([off])[off].result(120)
    assert case.produce("orders", b"raw") == [FINE]


def test_an_id_is_taken_as_soon_as_the_registry_has_answered(case: Case) -> None:
    """While others produce: every connection may be of another network process."""
    case.create("orders")
    first = named(case.register("orders-value"))
    answers: list[Answer] = []

    def load(done: threading.Event) -> None:
        while not done.is_set():
            answers.extend(case.produce("orders", *[first] * 50, linger_ms=0))

    with beside(load):
        for number in range(10):
            schema = json.loads(ORDER)
            schema["fields"].append({"name": f"more{number}", "type": "int", "default": 0})
            new = case.register("orders-value", json.dumps(schema))
            assert case.produce("orders", named(new), linger_ms=0) == [FINE]
    assert set(answers) == {FINE}


def test_without_a_registry_values_are_refused_with_the_reason(broker_factory: BrokerFactory) -> None:
    case = Case(broker_factory({}), registered=False)
    case.create("orders")
    assert refused(case.produce("orders", named(1)))
    assert "No schema is registered" in case.texts("orders", named(1))[0]
    assert case.produce("orders", None) == [FINE]
