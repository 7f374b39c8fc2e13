"""What a scrape says after real clients have produced, fetched, committed and deleted."""

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import Scrape, scrape

pytestmark = pytest.mark.slow
RECORDS = 100


def until(condition: Callable[[Scrape], bool], broker: KBroker) -> Scrape:
    """A scrape that fulfils a condition: some numbers are taken over once a second."""
    deadline = time.monotonic() + 60
    while True:
        found = scrape(broker)
        if condition(found):
            return found
        assert time.monotonic() < deadline, found.text
        time.sleep(0.1)


def value(found: Scrape, name: str, /, **labels: str) -> float:
    """0 for a series that is not there yet."""
    try:
        return found.value(name, **labels)
    except KeyError:
        return 0


def create(broker: KBroker, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(120)


def produce(broker: KBroker, topic: str, count: int = RECORDS, **config: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **config})
    for number in range(count):
        producer.produce(topic, value=b"v" * 50, key=str(number))
    assert producer.flush(120) == 0


def consume(broker: KBroker, topic: str, group: str, count: int = RECORDS) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        seen += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def wait_for_nothing(broker: KBroker, topic: str) -> None:
    """A fetch at the end of the log that waits out its 50 ms."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, 0, RECORDS)])
    name = "kbroker_request_phase_seconds"
    purgatory = {"api": "Fetch", "phase": "purgatory"}

    def waited(found: Scrape) -> bool:
        assert consumer.poll(0.1) is None
        return any(
            sample.labels == purgatory for sample in found.families[name].samples if "le" not in sample.labels
        )

    until(waited, broker)
    consumer.close()


def test_records_and_bytes_of_a_topic_and_of_the_broker(broker: KBroker) -> None:
    before = scrape(broker).value("kbroker_appended_records_total")
    create(broker, "counted", 3)
    produce(broker, "counted")
    consume(broker, "counted", "counting")
    found = scrape(broker)
    assert found.value("kbroker_topic_in_records_total", topic="counted") == RECORDS
    assert found.value("kafka_server_brokertopicmetrics_messagesin_total", topic="counted") == RECORDS
    assert found.value("kbroker_appended_records_total") >= before + RECORDS
    size = found.value("kbroker_topic_in_bytes_total", topic="counted")
    assert size > RECORDS * 50
    assert found.value("kbroker_topic_log_bytes", topic="counted") == size
    assert found.value("kbroker_topic_out_bytes_total", topic="counted") >= size
    sent = sum(value(found, "kbroker_fetch_sent_bytes_total", path=path) for path in ("sendfile", "copy"))
    assert found.value("kbroker_fetched_bytes_total") == sent >= size
    ends = [found.value("kafka_log_log_logendoffset", topic="counted", partition=str(p)) for p in range(3)]
    assert sum(ends) == RECORDS


def test_requests_by_api_version_and_error_with_their_times(broker: KBroker) -> None:
    create(broker, "timed")
    produce(broker, "timed")
    consume(broker, "timed", "timing")
    wait_for_nothing(broker, "timed")
    found = scrape(broker)
    counted = {labels["api"] for labels in found.labels("kbroker_requests_total")}
    assert {"Produce", "Fetch", "Metadata", "ApiVersions", "JoinGroup", "OffsetCommit"} <= counted
    name = "kbroker_request_phase_seconds"
    for api, phase in (
        ("Produce", "total"),
        ("Produce", "append"),
        ("Produce", "respond"),
        ("Fetch", "total"),
        ("Fetch", "purgatory"),
        ("Metadata", "local"),
    ):
        assert found.sample(name, name + "_count", {"api": api, "phase": phase}) > 0, (api, phase)
    assert found.value("kbroker_request_errors_total", api="Produce", error="NONE") > 0
    assert found.value("kbroker_request_errors_total", api="OffsetCommit", error="NONE") > 0
    assert found.value("kafka_network_requestmetrics_totaltimems", request="Produce", quantile="0.99") > 0


def test_an_error_is_counted_under_its_name(broker: KBroker) -> None:
    create(broker, "twice")
    with pytest.raises(KafkaException) as caught:
        create(broker, "twice")
    error: Any = caught.value.args[0]
    assert error.code() == KafkaError.TOPIC_ALREADY_EXISTS
    found = scrape(broker)
    assert found.value("kbroker_request_errors_total", api="CreateTopics", error="TOPIC_ALREADY_EXISTS") == 1


def test_group_lag_is_what_was_not_committed(broker: KBroker) -> None:
    create(broker, "lagging")
    produce(broker, "lagging")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "slow"})
    consumer.commit(offsets=[TopicPartition("lagging", 0, 30)], asynchronous=False)
    consumer.close()
    labels = {"consumergroup": "slow", "topic": "lagging", "partition": "0"}
    found = until(lambda found: value(found, "kafka_consumergroup_current_offset", **labels) == 30, broker)
    assert found.value("kafka_consumergroup_lag", **labels) == RECORDS - 30
    assert found.value("kbroker_group_members", group="slow") == 0


def test_a_topic_with_the_slots_of_a_deleted_one_starts_from_zero(broker: KBroker) -> None:
    create(broker, "old", 2)
    produce(broker, "old")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["old"])["old"].result(120)
    until(lambda found: value(found, "kbroker_topic_partitions", topic="old") == 0, broker)
    create(broker, "new", 2)
    assert scrape(broker).value("kbroker_topic_in_records_total", topic="new") == 0
    produce(broker, "new", 7)
    assert scrape(broker).value("kbroker_topic_in_records_total", topic="new") == 7


def test_connections_come_and_go(broker: KBroker) -> None:
    labels = {"listener": "PLAINTEXT"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "connected"})
    consumer.list_topics(timeout=30)

    def connections(found: Scrape) -> float:
        return sum(
            float(sample.value)
            for sample in found.families["kafka_server_socket_server_metrics_connection_count"].samples
        )

    found = until(lambda found: connections(found) > 0, broker)
    assert found.value("kbroker_connections_accepted_total", **labels) >= connections(found)
    consumer.close()
    gc.collect()  # clients of the tests before this one
    until(lambda found: connections(found) == 0, broker)


def test_durable_appends_show_their_flushes(broker: KBroker) -> None:
    create(broker, "durable", **{"write.caching": "false"})
    produce(broker, "durable", 5, acks="all")
    found = scrape(broker)
    assert found.sample("kbroker_flush_seconds", "kbroker_flush_seconds_count", {}) > 0
    assert found.value("kbroker_topic_flushes_total", topic="durable") > 0
    assert found.value("kbroker_log_durable_offset", topic="durable", partition="0") == 5


def test_counters_of_a_network_process_survive_its_death(broker: KBroker) -> None:
    create(broker, "survivor")
    produce(broker, "survivor")
    before = scrape(broker)
    requests = sum(sample.value for sample in before.families["kbroker_requests_total"].samples)
    broker.kill9_child("network")
    until(lambda found: value(found, "kbroker_process_deaths_total", role="network") == 1, broker)
    produce(broker, "survivor", 1)
    after = scrape(broker)
    assert sum(sample.value for sample in after.families["kbroker_requests_total"].samples) > requests
    assert after.value("kbroker_topic_in_records_total", topic="survivor") == RECORDS + 1


def test_a_stopped_group_has_a_lag_in_seconds_and_bytes(broker: KBroker) -> None:
    create(broker, "half-read")
    produce(broker, "half-read")
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "halfway",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("half-read", 0, 10)], asynchronous=False)
    consumer.close()
    of = {"group": "halfway", "topic": "half-read", "partition": "0"}

    def behind(found: Scrape) -> bool:
        return value(found, "kbroker_group_lag_seconds", **of) > 0

    until(behind, broker)
    found = scrape(broker)
    assert 0 < found.value("kbroker_group_lag_seconds", **of) < 300
    assert found.value("kbroker_group_lag", **of) == RECORDS - 10
    size = found.value("kbroker_topic_log_bytes", topic="half-read")
    assert 0 < found.value("kbroker_group_lag_bytes", group="halfway") <= size
    assert found.value("kbroker_group_catch_up_seconds", group="halfway") == float("inf")


def test_an_open_transaction_is_counted_with_its_age(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})
    create(broker, "orders")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "slow", "transaction.timeout.ms": 10_000}
    )
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce("orders", b"x")
    producer.flush(30)
    until(lambda found: value(found, "kbroker_transactions_open") == 1, broker)
    until(lambda found: value(found, "kbroker_transaction_oldest_seconds") > 0.5, broker)
    until(lambda found: value(found, "kbroker_transactions_timed_out_total") == 1, broker)
    until(lambda found: value(found, "kbroker_transactions_open") == 0, broker)
