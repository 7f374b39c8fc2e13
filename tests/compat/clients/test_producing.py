"""Producing at the limits: acks, idempotence, sizes, timestamps, topics that are not there, refused
records."""

import time
from typing import Any

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka import KafkaError

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.python_clients import TIMEOUT_S, AioKafka, Confluent, KafkaPython
from tests.compat.clients.record import Record
from tests.compat.raw import SocketPeer
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually

pytestmark = pytest.mark.compat

CLIENTS = (Confluent, KafkaPython, AioKafka)
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
BATCH_AND_RECORD_BYTES = 61 + 11
"""Header of a batch, and what surrounds a value of this size in a record without key and
headers."""


def produce(
    bootstrap: str, topic: str, value: bytes, timestamp: int = 0, partition: int = 0, **settings: object
) -> confluent_kafka.Message:
    """Produces one record without a key; gives it as delivered. Raises KafkaException."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **named})
    delivered: list[tuple[KafkaError | None, confluent_kafka.Message]] = []
    producer.produce(
        topic, value, None, partition, timestamp=timestamp, on_delivery=lambda *what: delivered.append(what)
    )
    producer.flush(TIMEOUT_S)
    ((error, message),) = delivered
    if error is not None:
        raise confluent_kafka.KafkaException(error)
    return message


def refused(
    bootstrap: str, topic: str, value: bytes, timestamp: int = 0, partition: int = 0, **settings: object
) -> str:
    """Like produce, for a record that is refused: the name of the error."""
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        produce(bootstrap, topic, value, timestamp, partition, **settings)
    error: Any = failure.value.args[0]
    return str(error.name())


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_keeps_order(bootstrap: str, topic: TopicFactory, acks: str) -> None:
    name = topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 1})
    for number in range(500):
        producer.produce(name, b"%d" % number, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    found = Confluent.read(bootstrap, name, 500)
    assert [record.value for record in found] == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("client", CLIENTS)
def test_idempotent_producers_restart_on_the_same_partition(
    bootstrap: str, topic: TopicFactory, client: Any
) -> None:
    name = topic()
    for round_ in range(3):
        client.write(bootstrap, name, "none", [Record(b"k", b"%d" % round_)])
    assert [record.value for record in client.read(bootstrap, name, 3)] == [b"0", b"1", b"2"]


def test_the_largest_record_that_fits_is_taken_and_a_larger_one_refused(
    bootstrap: str, topic: TopicFactory
) -> None:
    name = topic()
    settings = {"message_max_bytes": 5_000_000, "compression_type": "none"}
    largest = DEFAULT_MAX_MESSAGE_BYTES - BATCH_AND_RECORD_BYTES
    assert refused(bootstrap, name, bytes(largest + 1), **settings) == "MSG_SIZE_TOO_LARGE"
    produce(bootstrap, name, bytes(largest), **settings)
    (record,) = Confluent.read(bootstrap, name, 1)
    assert record.value == bytes(largest)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_may_take_ten_megabytes_in_one_record(
    bootstrap: str, topic: TopicFactory, client: Any
) -> None:
    name = topic(max_message_bytes="20000000")
    value = bytes(range(256)) * 40_000
    produce(bootstrap, name, value, message_max_bytes=20_000_000, compression_type="none")
    (record,) = client.read(bootstrap, name, 1)
    assert record.value == value


def test_the_limit_of_a_topic_counts_compressed_bytes(bootstrap: str, topic: TopicFactory) -> None:
    name = topic(max_message_bytes="2000")
    assert refused(bootstrap, name, bytes(3000), compression_type="none") == "MSG_SIZE_TOO_LARGE"
    produce(bootstrap, name, bytes(3000), compression_type="gzip")


class TestTimestamps:
    def test_append_time_replaces_what_the_client_says(self, bootstrap: str, topic: TopicFactory) -> None:
        name = topic(message_timestamp_type="LogAppendTime")
        before = time.time_ns() // 1_000_000
        message = produce(bootstrap, name, b"v", 1000, compression_type="gzip")
        kind, stamp = message.timestamp()
        assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
        assert before - 1000 < stamp < before + 60_000
        (read,) = Confluent.read(bootstrap, name, 1)
        assert read.timestamp == stamp

    def test_too_far_in_the_future_is_refused(self, bootstrap: str, topic: TopicFactory) -> None:
        in_two_hours = time.time_ns() // 1_000_000 + 7_200_000
        assert refused(bootstrap, topic(), b"v", in_two_hours) == "INVALID_TIMESTAMP"

    def test_too_old_timestamps_are_refused_by_the_topics_limit(
        self, bootstrap: str, topic: TopicFactory
    ) -> None:
        name = topic(message_timestamp_before_max_ms="60000")
        assert refused(bootstrap, name, b"v", 1_600_000_000_000) == "INVALID_TIMESTAMP"


class TestTopics:
    def test_an_unknown_topic_is_made_by_producing_to_it(self, bootstrap: str, fresh: NameFactory) -> None:
        assert produce(bootstrap, fresh("automatic"), b"v").offset() == 0

    def test_a_client_that_only_describes_a_topic_gets_correct_metadata(
        self, bootstrap: str, fresh: NameFactory
    ) -> None:
        """Even though the look creates it: that is how clients learn that a deletion took
        effect."""
        peer = SocketPeer(int(bootstrap.rpartition(":")[2]))
        request = MetadataRequest(
            [MetadataRequestTopic(name=fresh("looked-at"))], allow_auto_topic_creation=True
        )

        def error() -> int:
            answer: Any = peer.ask(ApiKey.METADATA, 9, request)
            return int(answer.topics[0].error_code)

        assert error() == KafkaError.UNKNOWN_TOPIC_OR_PART
        eventually(lambda: error() == 0)

    @pytest.mark.parametrize("name", ["bad name", "x" * 250, "über"])
    def test_invalid_names_are_refused(self, bootstrap: str, name: str) -> None:
        settings = {"message_timeout_ms": 60_000}
        assert refused(bootstrap, name, b"v", **settings) in {"TOPIC_EXCEPTION", "_UNKNOWN_TOPIC"}

    def test_a_partition_that_is_not_there_is_unknown(self, bootstrap: str, topic: TopicFactory) -> None:
        assert refused(bootstrap, topic(2), b"v", partition=7) == "_UNKNOWN_PARTITION"

    def test_internal_topics_take_nothing_from_clients(self, bootstrap: str, fresh: NameFactory) -> None:
        group = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": fresh("makes-the-topic")}
        )
        group.subscribe([fresh("nothing")])
        group.poll(1)
        group.close()
        assert refused(bootstrap, "__consumer_offsets", b"v", message_timeout_ms=60_000) in {
            "TOPIC_EXCEPTION",
            "INVALID_RECORD",
        }

    def test_a_compacted_topic_wants_keys(self, bootstrap: str, topic: TopicFactory) -> None:
        assert refused(bootstrap, topic(cleanup_policy="compact"), b"v") == "INVALID_RECORD"

    def test_keys_select_the_same_partition_in_all_clients(self, bootstrap: str, topic: TopicFactory) -> None:
        """Not the broker's doing: that what different clients write for a key meets in one
        partition."""
        name = topic(5)
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
        theirs = [producer.send(name, b"v", b"k%d" % n).get(TIMEOUT_S).partition for n in range(10)]
        producer.close()
        assert theirs == [0, 2, 3, 1, 0, 4, 0, 3, 0, 4]


def test_without_auto_creation_an_unknown_topic_stays_unknown(broker_factory: BrokerFactory) -> None:
    node = broker_factory({"auto.create.topics.enable": "false"})
    assert refused(node.bootstrap, "unknown", b"v", message_timeout_ms=1500) in {
        "_UNKNOWN_TOPIC",
        "UNKNOWN_TOPIC_OR_PART",
        "_MSG_TIMED_OUT",
    }
    producer = kafka.KafkaProducer(bootstrap_servers=node.bootstrap, max_block_ms=1500)
    with pytest.raises(kafka.errors.KafkaTimeoutError):
        producer.send("unknown", b"v").get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(bootstrap_servers=node.bootstrap)
    assert "unknown" not in consumer.topics()
    consumer.close()
