"""The load on a broker that crashes at one crash point after another, and the conditions that must
hold afterwards.

Every piece is a thread that continues through all crashes and restarts, and records what was
acknowledged. `judge` is called when the threads have ended and the broker is running.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.reading import read

RECONNECT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10}
IDEMPOTENT = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 1,
    "delivery.timeout.ms": 280_000,
    **RECONNECT,
}
PAUSE_S = 0.002
CREATED_S = 120  # a disk that other tests use holds each sync up, for 15 s at worst


class Piece:
    """A thread with a topic of one partition. Its `step` is called until it is stopped."""

    topic = ""
    config: dict[str, str] = {}  # noqa: RUF012  never changed

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        self.bootstrap = bootstrap
        self.replicas = replicas
        self.failed: list[str] = []
        self.count = 0  # of what the broker has acknowledged
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.topic, daemon=True)

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = NewTopic(self.topic, 1, self.replicas, config=self.config)
        admin.create_topics([new], request_timeout=CREATED_S)[self.topic].result(CREATED_S)
        self._thread.start()

    def wait_for_progress(self, more: int = 1, timeout_s: float = 180) -> None:
        """Until the broker has acknowledged some more: back from a crash, it must serve again."""
        before, deadline = self.count, time.monotonic() + timeout_s
        while self.count < before + more:
            assert not self.failed, (self.topic, self.failed[:5])
            assert time.monotonic() < deadline, f"{self.topic}: nothing acknowledged within {timeout_s} s"
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(300)
        assert not self._thread.is_alive(), f"{self.topic} hangs"

    def _run(self) -> None:
        try:
            with self.client() as producer:
                while not self._stop.is_set():
                    self.step(producer)
                    self.poll(producer)
                    time.sleep(PAUSE_S)
        except Exception as error:
            self.failed.append(repr(error))

    @contextmanager
    def client(self) -> Iterator[Producer]:
        producer = Producer({"bootstrap.servers": self.bootstrap, **IDEMPOTENT})
        yield producer
        assert producer.flush(300) == 0

    def step(self, producer: Producer) -> None:
        raise NotImplementedError

    def poll(self, producer: Producer) -> None:
        producer.poll(0)

    def judge(self) -> None:
        assert not self.failed, (self.topic, self.failed[:5])


class Short(Piece):
    """Retention by size and DeleteRecords: acknowledged records that were not deleted are present;
    deleted records do not reappear."""

    topic = "short"
    config = {"retention.bytes": "60000", "segment.ms": "150", "write.caching": "false"}  # noqa: RUF012

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        super().__init__(bootstrap, replicas)
        self._next = 0
        self.acknowledged: dict[int, int] = {}
        self.implied: set[int] = set()  # by a later batch; at an offset that the client does not know
        self.deleted_below = 0
        self._due = time.monotonic() + 0.5
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **RECONNECT})

    def step(self, producer: Producer) -> None:
        number = self._next

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is not None:
                self.failed.append(str(error))
                return
            self.count += 1
            if offset is None:
                self.implied.add(number)
            else:
                self.acknowledged[offset] = number

        with suppress(BufferError):
            producer.produce(
                self.topic, str(number).encode() + b" " * 200, partition=0, on_delivery=delivered
            )
            self._next += 1
        if time.monotonic() > self._due and self.acknowledged:
            self._due = time.monotonic() + 0.5
            target = max(self.acknowledged) - 20
            if target > self.deleted_below:
                future = self._admin.delete_records(
                    [TopicPartition(self.topic, 0, target)], request_timeout=5
                )
                with suppress(KafkaException, TimeoutError):
                    (one,) = future.values()
                    self.deleted_below = max(self.deleted_below, one.result(10).low_watermark)

    def judge(self) -> None:
        super().judge()
        found = {
            at(message): int((message.value() or b"").strip()) for message in read(self.bootstrap, self.topic)
        }
        first = min(found, default=0)
        assert first >= self.deleted_below, f"{first} was deleted, all below {self.deleted_below}"
        expected = {offset: value for offset, value in self.acknowledged.items() if offset >= first}
        assert {offset: found.get(offset) for offset in expected} == expected
        assert sorted(found.values()) == list(found.values())
        oldest = min(found.values(), default=self._next)
        lost = {number for number in self.implied if number >= oldest} - set(found.values())
        assert not lost, f"acknowledged but not there: {sorted(lost)[:5]}"
        assert max(self.acknowledged) <= max(found)


class Compacted(Piece):
    """Compaction: each key has its latest acknowledged value, and deleted keys do not reappear."""

    topic = "compacted"
    config = {  # noqa: RUF012
        "cleanup.policy": "compact",
        "segment.ms": "150",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "300",
    }
    KEYS = 40

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        super().__init__(bootstrap, replicas)
        self._next = 0
        self.acknowledged: dict[int, int] = {}  # by key, the number of the latest acknowledged record
        self.tombstones: set[int] = set()  # numbers of records without a value

    def step(self, producer: Producer) -> None:
        number = self._next
        key = number * 7919 % self.KEYS
        dead = number % 11 == 0
        if dead:
            self.tombstones.add(number)

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.count += 1
                self.acknowledged[key] = max(number, self.acknowledged.get(key, -1))

        value = None if dead else str(number).encode() + b" " * 100
        with suppress(BufferError):
            producer.produce(self.topic, value, str(key).encode(), partition=0, on_delivery=delivered)
            self._next += 1

    def judge(self) -> None:
        super().judge()
        latest: dict[int, int | None] = {}
        offsets: list[int] = []
        for message in read(self.bootstrap, self.topic):
            key, value = message.key(), message.value()
            latest[int(key or b"")] = None if value is None else int(value.strip())
            offsets.append(at(message))
        assert offsets == sorted(set(offsets))
        for one, number in self.acknowledged.items():
            expected = None if number in self.tombstones else number
            assert latest.get(one) == expected, (one, number, latest.get(one))


class Transactional(Piece):
    """Transactions: all records of a committed one, none of an aborted one, all or none of an
    unknown one."""

    topic = "transactional"
    config = {"segment.ms": "150"}  # noqa: RUF012
    EACH = 3

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        super().__init__(bootstrap, replicas)
        self._next = 0
        self.outcomes: dict[int, str] = {}

    @contextmanager
    def client(self) -> Iterator[Producer]:
        producer = self._new()
        self._current = producer
        yield producer
        with suppress(KafkaException):
            self._current.flush(30)

    def poll(self, producer: Producer) -> None:
        """The first producer may have been replaced; then it reports that its successor has fenced
        it."""

    def _new(self) -> Producer:
        settings = {
            "transactional.id": "matrix",
            "transaction.timeout.ms": 60_000,
            "linger.ms": 1,
            **RECONNECT,
        }
        while True:
            producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
            try:
                producer.init_transactions(120)
                return producer
            except KafkaException:
                if self._stop.is_set():
                    return producer

    def step(self, _: Producer) -> None:
        number = self._next
        self._next += 1
        self.outcomes[number] = "unknown"
        producer = self._current
        try:
            producer.begin_transaction()
            for part in range(self.EACH):
                producer.produce(self.topic, f"{number} {part}".encode(), partition=0)
            if number % 3 == 0:
                if producer.flush(30):  # the broker was down for long: the outcome is unknown
                    self._current = self._new()
                    return
                producer.abort_transaction(30)
                self.outcomes[number] = "aborted"
            else:
                producer.commit_transaction(30)
                self.outcomes[number] = "committed"
                self.count += 1
        except KafkaException:
            self._current = self._new()

    def judge(self) -> None:
        """A commit is answered before its markers are in the logs; a new producer of the id gets
        its id when they are."""
        super().judge()
        self._new()
        seen: dict[int, list[int]] = {}
        for message in read(self.bootstrap, self.topic):
            number, part = map(int, (message.value() or b"").split())
            seen.setdefault(number, []).append(part)
        whole = list(range(self.EACH))
        for number, outcome in self.outcomes.items():
            parts = seen.pop(number, [])
            everything: dict[str, list[list[int]]] = {
                "committed": [whole],
                "aborted": [[]],
                "unknown": [[], whole],
            }
            allowed = everything[outcome]
            assert parts in allowed, f"transaction {number} is {outcome}, {parts} of it are visible"
        assert not seen
        assert "committed" in self.outcomes.values()


class Churn(Piece):
    """Topics are created and deleted; a topic whose deletion was answered does not reappear."""

    topic = "churn"

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        super().__init__(bootstrap, replicas)
        self._next = 0
        self._due = 0.0
        self.deleted: set[str] = set()
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **RECONNECT})

    def step(self, _: Producer) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + 0.4
        name = f"churn-{self._next}"
        self._next += 1
        with suppress(KafkaException, TimeoutError):
            self._admin.create_topics([NewTopic(name, 2, 1)], request_timeout=3)[name].result(5)
            self._admin.delete_topics([name], request_timeout=3)[name].result(5)
            self.deleted.add(name)
            self.count += 1

    def judge(self) -> None:
        super().judge()
        left = set(self._admin.list_topics(timeout=30).topics)
        assert not left & self.deleted


def at(message: Message) -> int:
    """Its offset."""
    offset = message.offset()
    assert offset is not None
    return offset


PIECES = (Short, Compacted, Transactional, Churn)
