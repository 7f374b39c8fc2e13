"""Idempotent producers that remember what was acknowledged, and the judge of what is in the log
afterwards."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3
BURST, PAUSE_S = 50, 0.005  # some thousand records a second: enough to be in flight at every moment


def create_topic(bootstrap: str, topic: str, config: dict[str, str] | None = None) -> None:
    """A topic with PARTITIONS partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config or {})])
    futures[topic].result(timeout=30)


@dataclass
class Load:
    """One producer in a thread: values are consecutive numbers per partition, as fast as acks come
    back.

    acknowledged: partition -> offset -> value, as delivery reports said. implied: partition ->
    values acknowledged at an offset that the client does not know: the response was lost, and an
    acknowledged batch behind it says that it is in the log. failed: delivery errors (none is
    expected: an idempotent producer resends until its timeout of minutes).
    """

    bootstrap: str
    topic: str
    settings: dict[str, str | int | bool] = field(default_factory=dict)
    acknowledged: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    implied: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    failed: list[str] = field(default_factory=list)
    attempted: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._count = 0
        self._acks: dict[int, float] = {}  # by partition, when the last acknowledgement came
        self._gaps: dict[int, float] = {}
        self._thread = threading.Thread(target=self._run, name="load")

    @property
    def count(self) -> int:
        """Acknowledged records so far."""
        return self._count

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self) -> None:
        """Stop producing and wait until everything in flight has been acknowledged."""
        self._stop.set()
        self._thread.join()

    def longest_gap(self) -> float:
        """Seconds of the longest silence of any partition that an acknowledgement has ended, since
        the last call."""
        gaps, self._gaps = self._gaps, {}
        return max(gaps.values(), default=0.0)

    def wait_for_acks(self, timeout_s: float = 120) -> None:
        """Until every partition has one more."""
        before, deadline = dict(self._acks), time.monotonic() + timeout_s
        while any(self._acks.get(partition) == before.get(partition) for partition in range(PARTITIONS)):
            assert time.monotonic() < deadline, f"no acknowledgement within {timeout_s} s"
            time.sleep(0.002)

    def wait_for_ack(self, since: int, timeout_s: float = 120) -> float:
        """Seconds until more than ``since`` records are acknowledged."""
        began = time.monotonic()
        while self._count <= since:
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"no acknowledgement within {timeout_s} s")
            time.sleep(0.002)
        return time.monotonic() - began

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert value is not None
        if offset is None:
            self.implied[partition].add(int(value))
        else:
            self.acknowledged[partition][offset] = int(value)
        self._count += 1
        now = time.monotonic()
        gap = now - self._acks.get(partition, now)
        self._gaps[partition] = max(gap, self._gaps.get(partition, 0.0))
        self._acks[partition] = now

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "delivery.timeout.ms": 240_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 100,
                "queue.buffering.max.messages": 2000,
                **self.settings,
            }
        )
        while not self._stop.is_set():
            if sum(self.attempted.values()) % BURST == 0:
                time.sleep(PAUSE_S)
            partition = sum(self.attempted.values()) % PARTITIONS
            try:
                value = self.attempted[partition]
                producer.produce(self.topic, str(value), partition=partition, on_delivery=self._delivered)
                self.attempted[partition] += 1
            except BufferError:
                producer.poll(0.01)
            producer.poll(0)
        left = producer.flush(250)
        assert left == 0, f"{left} records were never acknowledged"


def read_all(
    bootstrap: str,
    topic: str,
    number: Callable[[bytes], int] = int,
    partitions: Iterable[int] = range(PARTITIONS),
) -> dict[int, dict[int, int]]:
    """partition -> offset -> number in the value, of the whole topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False})
    found: dict[int, dict[int, int]] = {}
    try:
        for partition in partitions:
            found[partition] = {}
            low, high = watermarks(consumer, TopicPartition(topic, partition))
            if high == low:
                continue
            consumer.assign([TopicPartition(topic, partition, low)])
            deadline = time.monotonic() + 180
            while not found[partition] or max(found[partition]) < high - 1:
                assert time.monotonic() < deadline, f"{topic}-{partition} does not deliver up to {high}"
                for message in consumer.consume(1000, 1.0):
                    if (error := message.error()) is not None:
                        if error.retriable():
                            continue
                        raise KafkaException(error)
                    offset, value = message.offset(), message.value()
                    assert offset is not None
                    assert value is not None
                    assert offset not in found[partition]
                    found[partition][offset] = number(value)
    finally:
        consumer.close()
    return found


def watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Log start and end. A former leader, which the library may still ask, answers
    NOT_LEADER_FOR_PARTITION, and a new one OFFSET_NOT_AVAILABLE until its high watermark is of its
    own epoch; this call of the library does not try again."""
    deadline = time.monotonic() + 120
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=90)
        except KafkaException as error:
            why = error.args[0]
            early = (
                KafkaError.NOT_LEADER_FOR_PARTITION,
                KafkaError.LEADER_NOT_AVAILABLE,
                KafkaError.OFFSET_NOT_AVAILABLE,
            )
            if not isinstance(why, KafkaError) or why.code() not in early or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return low, high


def judge(load: Load, log: dict[int, dict[int, int]]) -> None:
    """Nothing acknowledged is lost, moved, doubled or out of order."""
    assert load.failed == []
    assert load.count > 0
    for partition, acknowledged in load.acknowledged.items():
        records = log[partition]
        wrong = {o: (v, records.get(o)) for o, v in acknowledged.items() if records.get(o) != v}
        assert not wrong, (
            f"partition {partition}: acknowledged but not there: {dict(list(wrong.items())[:5])}"
        )
        values = [records[offset] for offset in sorted(records)]
        lost = load.implied[partition] - set(values)
        assert not lost, f"partition {partition}: acknowledged but not there: {sorted(lost)[:5]}"
        assert values == sorted(set(values)), f"partition {partition}: doubled or reordered"
        assert values == list(range(load.attempted[partition])), f"partition {partition}: not what was sent"
        assert sorted(records) == list(range(len(records))), f"partition {partition}: a hole in the offsets"
