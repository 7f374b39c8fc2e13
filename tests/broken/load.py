"""Real clients against a broken broker, with the histories that a load test would leave."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from loadtest import history
from loadtest.record import HEADER, MAGIC, VERSION, header_of, intact, key_bytes, key_number, sealed
from loadtest.run import ConsumerClient, PartitionEnds, ProducerClient, Run, Topic, save_client, save_run
from tests.broken.proxy import PAST_LSO

RUN = 11
RECORDS, BATCH = 200, 5
TRANSACTIONS, IN_TRANSACTION = 6, 20
Row = dict[str, Any]


class Histories:
    """Rows of a run, and the clients they are of."""

    def __init__(self, folder: Path, topics: list[str]) -> None:
        self.folder = folder
        self.rows: dict[str, list[Row]] = {kind: [] for kind in history.KINDS}
        self.run = Run(RUN, 1, "", "broken on purpose", time.time_ns(), {}, [])
        for name in topics:
            self.run.topics.append(Topic(name, 1, "transactional" if name == PAST_LSO else "idempotent"))
        (folder / "intents").mkdir(parents=True)

    def write(self, ends: dict[str, int]) -> None:
        self.run.ended_ns, self.run.drained = time.time_ns(), True
        self.run.ends = {topic: {"0": PartitionEnds(0, end, end)} for topic, end in ends.items()}
        save_run(self.folder, self.run)
        for kind, rows in self.rows.items():
            if rows:
                (self.folder / kind).mkdir()
                pq.write_table(
                    pa.Table.from_pylist(rows, history.KINDS[kind]), self.folder / kind / "all-0000.parquet"
                )

    def producer(self, number: int, topic: str, transactional_id: str | None) -> None:
        client = ProducerClient(
            number, topic, "all", True, transactional_id, "none", 44, 1, 0, time.time_ns()
        )
        save_client(self.folder, history.writer_name("producer", number), client)
        line = f'{{"producer": {number}, "first_seq": 0, "last_seq": {RECORDS}, "at_ns": 0}}\n'
        (self.folder / "intents" / f"p{number:06d}.jsonl").write_text(line)


def value(producer: int, seq: int, flags: int) -> tuple[bytes, int]:
    """A record's value and its intended_ns."""
    now = time.time_ns()
    head = np.array([(0, MAGIC, VERSION, flags, RUN, producer, seq, seq, now)], HEADER).tobytes()
    return sealed(head[4:] + b"body"), now


def produce(histories: Histories, bootstrap: str, number: int, topic: str) -> None:
    """RECORDS records, several batches in flight; in transactions of which every third is aborted
    on PAST_LSO."""
    transactional = topic == PAST_LSO
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "batch.num.messages": BATCH,
        "linger.ms": 20,
        "message.timeout.ms": 60_000,
    }
    identifier = "broken" if transactional else None
    producer = Producer(settings | ({"transactional.id": identifier} if identifier else {}))
    histories.producer(number, topic, identifier)
    if transactional:
        producer.init_transactions(120)
    seq = 0
    for turn in range(TRANSACTIONS if transactional else 1):
        if transactional:
            producer.begin_transaction()
        first = seq
        for _ in range(IN_TRANSACTION if transactional else RECORDS):
            send(histories, producer, number, topic, seq, turn if transactional else -1)
            seq += 1
        if producer.flush(60):
            raise AssertionError(f"{topic}: not all was acknowledged")
        if transactional:
            end_transaction(histories, producer, number, turn, first, seq - 1)


def send(
    histories: Histories, producer: Producer, number: int, topic: str, seq: int, transaction: int
) -> None:
    content, intended = value(number, seq, 1 if transaction >= 0 else 0)
    row = {
        "producer": number,
        "seq": seq,
        "partition_seq": seq,
        "topic": topic,
        "partition": 0,
        "key": seq % 10,
        "transaction": transaction,
        "intended_ns": intended,
        "sent_ns": time.time_ns(),
    }

    def acknowledged(error: object, message: Message) -> None:
        assert error is None, f"{topic}: {error}"
        reported = {
            "offset": message.offset(),
            "timestamp_ms": message.timestamp()[1],
            "status": 0,
            "error": 0,
        }
        histories.rows["sends"].append(row | reported | {"acked_ns": time.time_ns()})

    producer.produce(topic, content, key_bytes(seq % 10), partition=0, on_delivery=acknowledged)
    producer.poll(0)


def end_transaction(
    histories: Histories, producer: Producer, number: int, turn: int, first: int, last: int
) -> None:
    aborts = turn % 3 == 2
    ending = time.time_ns()
    if aborts:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)
    row = {
        "producer": number,
        "transaction": turn,
        "first_seq": first,
        "last_seq": last,
        "outcome": int(aborts),
    }
    times = {"begin_ns": ending, "ending_ns": ending, "end_ns": time.time_ns()}
    histories.rows["transactions"].append(row | {"meant": int(aborts), "error": 0} | times)


def drain(
    histories: Histories, bootstrap: str, number: int, topics: list[str], isolation: str
) -> dict[str, int]:
    """Reads every topic from start to end; gives the ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    ends = {
        topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1] for topic in topics
    }
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    left = set(topics)
    deadline = time.monotonic() + 60
    position = 0
    while left:
        assert time.monotonic() < deadline, f"{left} not read to the end"
        for message in consumer.consume(500, 0.5):
            if (error := message.error()) is not None:
                if error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
                left.discard(str(message.topic()))
                continue
            histories.rows["reads"].append(read_row(message, number, position))
            position += 1
    consumer.close()
    client = ConsumerClient(
        number, None, "drain", topics, isolation, "earliest", 1, 0, time.time_ns(), finished=True
    )
    save_client(histories.folder, history.writer_name("consumer", number), client)
    return ends


def read_row(message: Message, consumer: int, position: int) -> Row:
    content = message.value() or b""
    header = header_of(content)
    return {
        "consumer": consumer,
        "position": position,
        "assignment": -1,
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        "key": key_number(message.key()),
        **{name: int(header[name]) for name in ("producer", "seq", "partition_seq", "flags", "intended_ns")},
        "intact": intact(content),
        "seen_ns": time.time_ns(),
    }


def create(bootstrap: str, topics: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # gives up its futures when it is not referenced
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(timeout=30)
