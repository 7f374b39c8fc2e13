"""The Python clients as writers and readers of records: confluent-kafka, kafka-python, aiokafka."""

import asyncio
import time
from types import SimpleNamespace

import aiokafka
import confluent_kafka
import cramjam
import kafka
import kafka.codec

from tests.compat.clients.record import Record
from tests.peer.side_work import in_time

# What python-snappy does, which is cramjam under another name and not among the requirements.
kafka.codec.snappy = kafka.codec.snappy or SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
)

TIMEOUT_S = 90


def expressible(records: list[Record]) -> list[Record]:
    """Those that kafka-python and aiokafka do not refuse: some key or value, no null in the
    headers."""
    some = [record for record in records if (record.key, record.value) != (None, None)]
    return [record for record in some if all(value is not None for _, value in record.headers)]


class Confluent:
    """confluent-kafka (librdkafka)."""

    @staticmethod
    def write(bootstrap: str, topic: str, codec: str, records: list[Record]) -> list[Record]:
        failures: list[object] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 20,
                "enable.idempotence": True,
            }
        )
        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                timestamp=record.timestamp or 0,
                headers=list(record.headers),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert not failures
        return records

    @staticmethod
    def read(bootstrap: str, topic: str, count: int) -> list[Record]:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "never-commits", "enable.auto.commit": False}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(found), 1):
                assert message.error() is None, message.error()
                headers = tuple(message.headers() or ())
                found.append(Record(message.key(), message.value(), headers, message.timestamp()[1]))
        consumer.close()
        return found


class KafkaPython:
    """kafka-python."""

    @staticmethod
    def write(bootstrap: str, topic: str, codec: str, records: list[Record]) -> list[Record]:
        own = expressible(records)
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            enable_idempotence=True,
        )
        try:
            sent = [
                producer.send(
                    topic, record.value, record.key, list(record.headers), 0, timestamp_ms=record.timestamp
                )
                for record in own
            ]
            for future in sent:
                future.get(TIMEOUT_S)
        finally:
            in_time(producer.close)
        return own

    @staticmethod
    def read(bootstrap: str, topic: str, count: int) -> list[Record]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        found: list[Record] = []
        try:
            consumer.assign([kafka.TopicPartition(topic, 0)])
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for batch in consumer.poll(1000).values():
                    found += [Record(one.key, one.value, tuple(one.headers), one.timestamp) for one in batch]
        finally:
            in_time(consumer.close)
        return found


class AioKafka:
    """aiokafka."""

    @staticmethod
    def write(bootstrap: str, topic: str, codec: str, records: list[Record]) -> list[Record]:
        own = expressible(records)

        async def send() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                linger_ms=20,
                enable_idempotence=True,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        0,
                        record.timestamp,
                        [(name, value) for name, value in record.headers if value is not None],
                    )
                    for record in own
                ]
                await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
            finally:
                await asyncio.wait_for(producer.stop(), TIMEOUT_S)

        asyncio.run(send())
        return own

    @staticmethod
    def read(bootstrap: str, topic: str, count: int) -> list[Record]:
        async def receive() -> list[Record]:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
            await consumer.start()
            consumer.assign([aiokafka.TopicPartition(topic, 0)])
            found: list[Record] = []
            try:
                deadline = time.monotonic() + TIMEOUT_S
                while len(found) < count and time.monotonic() < deadline:
                    for batch in (await consumer.getmany(timeout_ms=1000)).values():
                        found.extend(
                            Record(one.key, one.value, tuple(one.headers), one.timestamp) for one in batch
                        )
            finally:
                await asyncio.wait_for(consumer.stop(), TIMEOUT_S)
            return found

        return asyncio.run(receive())
