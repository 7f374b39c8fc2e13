"""Where to read: offsets for times, watermarks, seek, pause and resume, offsets out of range."""

import asyncio

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.python_clients import TIMEOUT_S, Confluent
from tests.compat.clients.record import Record

pytestmark = pytest.mark.compat

START_MS = 1_700_000_000_000
RECORDS = [Record(b"k", b"%d" % number, (), START_MS + 1000 * number) for number in range(10)]


@pytest.fixture
def filled(bootstrap: str, topic: TopicFactory) -> str:
    """A topic with ten records, a second of their own each; so long ago that retention would delete
    them."""
    name = topic(retention_ms="-1")
    Confluent.write(bootstrap, name, "none", RECORDS)
    return name


def confluent_consumer(bootstrap: str, **settings: object) -> confluent_kafka.Consumer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "positions", "enable.auto.commit": False, **named}
    )


def next_offset(consumer: confluent_kafka.Consumer, timeout_s: float = TIMEOUT_S) -> int | None:
    """The offset of the next record; None when none comes. Raises KafkaException for an error."""
    message = consumer.poll(timeout_s)
    if message is None:
        return None
    if message.error():
        raise confluent_kafka.KafkaException(message.error())
    return message.offset()


class TestConfluent:
    def test_offsets_for_times_and_watermarks(self, bootstrap: str, filled: str) -> None:
        consumer = confluent_consumer(bootstrap)
        requested = [START_MS - 1, START_MS + 4500, START_MS + 9000, START_MS + 9001]
        found = [
            consumer.offsets_for_times([TopicPartition(filled, 0, time_ms)], TIMEOUT_S)[0].offset
            for time_ms in requested
        ]
        assert found == [0, 5, 9, -1]
        assert consumer.get_watermark_offsets(TopicPartition(filled, 0), TIMEOUT_S) == (0, 10)
        consumer.close()

    def test_a_consumer_seeks_pauses_and_resumes(self, bootstrap: str, filled: str) -> None:
        consumer = confluent_consumer(bootstrap)
        partition = TopicPartition(filled, 0, 7)
        consumer.assign([partition])
        assert next_offset(consumer) == 7
        consumer.seek(TopicPartition(filled, 0, 2))
        assert next_offset(consumer) == 2
        consumer.pause([partition])
        assert next_offset(consumer, 1) is None
        consumer.resume([partition])
        assert next_offset(consumer) == 3
        assert consumer.position([partition])[0].offset == 4
        consumer.close()

    def test_a_consumer_starts_at_the_beginning_the_end_or_a_tail(self, bootstrap: str, filled: str) -> None:
        consumer = confluent_consumer(bootstrap, enable_partition_eof=True)
        consumer.assign([TopicPartition(filled, 0, confluent_kafka.OFFSET_BEGINNING)])
        assert next_offset(consumer) == 0
        consumer.assign([TopicPartition(filled, 0, confluent_kafka.OFFSET_END)])
        with pytest.raises(confluent_kafka.KafkaException, match="_PARTITION_EOF"):
            next_offset(consumer)
        consumer.close()

    @pytest.mark.parametrize(("reset", "offset"), [("earliest", 0), ("latest", None)])
    def test_out_of_range_resets(self, bootstrap: str, filled: str, reset: str, offset: int | None) -> None:
        consumer = confluent_consumer(bootstrap, auto_offset_reset=reset)
        consumer.assign([TopicPartition(filled, 0, 1000)])
        assert next_offset(consumer, 3) == offset
        consumer.close()

    def test_out_of_range_is_an_error_without_reset(self, bootstrap: str, filled: str) -> None:
        consumer = confluent_consumer(bootstrap, auto_offset_reset="error")
        consumer.assign([TopicPartition(filled, 0, 1000)])
        with pytest.raises(confluent_kafka.KafkaException, match="_AUTO_OFFSET_RESET"):
            next_offset(consumer)
        consumer.close()

    def test_a_consumer_at_the_end_gets_what_comes_next(self, bootstrap: str, filled: str) -> None:
        longer_ms = int(1000 * TIMEOUT_S) + 60_000  # than this test waits for the record
        consumer = confluent_consumer(
            bootstrap, fetch_wait_max_ms=longer_ms, socket_timeout_ms=longer_ms + 60_000
        )
        consumer.assign([TopicPartition(filled, 0, 10)])
        assert next_offset(consumer, 1) is None
        Confluent.write(bootstrap, filled, "none", [Record(b"k", b"late")])
        assert next_offset(consumer) == 10, "the waiting fetch was not completed by the new record"
        consumer.close()

    def test_positions_survive_that_older_records_are_deleted(
        self, bootstrap: str, filled: str, admin: AdminClient
    ) -> None:
        (done,) = admin.delete_records([TopicPartition(filled, 0, 4)]).values()
        assert done.result(TIMEOUT_S).low_watermark == 4
        consumer = confluent_consumer(bootstrap, auto_offset_reset="earliest")
        assert consumer.get_watermark_offsets(TopicPartition(filled, 0), TIMEOUT_S) == (4, 10)
        consumer.assign([TopicPartition(filled, 0, 1)])
        assert next_offset(consumer) == 4
        consumer.close()

    def test_small_fetch_sizes_still_bring_large_records(self, bootstrap: str, topic: TopicFactory) -> None:
        name = topic()
        Confluent.write(bootstrap, name, "none", [Record(b"k", b"x" * 50_000)] * 3)
        consumer = confluent_consumer(bootstrap, fetch_message_max_bytes=1000)
        consumer.assign([TopicPartition(name, 0, 0)])
        assert [next_offset(consumer) for _ in range(3)] == [0, 1, 2]
        consumer.close()


class TestKafkaPython:
    def test_offsets_for_times_and_ends(self, bootstrap: str, filled: str) -> None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
        partition = kafka.TopicPartition(filled, 0)
        try:
            found = consumer.offsets_for_times({partition: START_MS + 4500})[partition]
            assert (found.offset, found.timestamp) == (5, START_MS + 5000)
            assert consumer.offsets_for_times({partition: START_MS + 9001})[partition] is None
            assert consumer.beginning_offsets([partition]) == {partition: 0}
            assert consumer.end_offsets([partition]) == {partition: 10}
            assert consumer.partitions_for_topic(filled) == {0}
            assert filled in consumer.topics()
        finally:
            consumer.close()

    def test_a_consumer_seeks_pauses_and_resumes(self, bootstrap: str, filled: str) -> None:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, max_poll_records=1)
        partition = kafka.TopicPartition(filled, 0)

        def following(timeout_ms: int = 1000 * TIMEOUT_S) -> list[int]:
            return [one.offset for batch in consumer.poll(timeout_ms).values() for one in batch]

        try:
            consumer.assign([partition])
            consumer.seek(partition, 7)
            assert following() == [7]
            consumer.seek_to_beginning(partition)
            assert following() == [0]
            consumer.pause(partition)
            assert following(700) == []
            consumer.resume(partition)
            assert following() == [1]
            consumer.seek_to_end(partition)
            assert consumer.position(partition) == 10
        finally:
            consumer.close()


class TestAioKafka:
    def test_offsets_for_times_seek_and_ends(self, bootstrap: str, filled: str) -> None:
        async def work() -> None:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
            await consumer.start()
            try:
                partition = aiokafka.TopicPartition(filled, 0)
                consumer.assign([partition])
                found = (await consumer.offsets_for_times({partition: START_MS + 4500}))[partition]
                assert found is not None
                assert (found.offset, found.timestamp) == (5, START_MS + 5000)
                assert await consumer.beginning_offsets([partition]) == {partition: 0}
                assert await consumer.end_offsets([partition]) == {partition: 10}
                consumer.seek(partition, 8)
                one = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                assert one.offset == 8
                await consumer.seek_to_beginning(partition)
                assert (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).offset == 0
                consumer.pause(partition)
                assert await consumer.getmany(timeout_ms=500) == {}
                consumer.resume(partition)
                assert (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).offset == 1
                await consumer.seek_to_end(partition)
                assert await consumer.position(partition) == 10
            finally:
                await consumer.stop()

        asyncio.run(work())


def test_the_latest_of_a_group_is_where_it_begins(bootstrap: str, filled: str, fresh: NameFactory) -> None:
    """auto.offset.reset=latest reads only what comes after the group's first look at the
    partition."""
    consumer = confluent_consumer(bootstrap, group_id=fresh("latest"), auto_offset_reset="latest")
    consumer.assign([TopicPartition(filled, 0, confluent_kafka.OFFSET_STORED)])
    assert next_offset(consumer, 2) is None
    Confluent.write(bootstrap, filled, "none", [Record(b"k", b"new")])
    assert next_offset(consumer) == 10
    consumer.close()
