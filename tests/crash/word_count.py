"""Apache Kafka's own Streams example, the word count, as an application that may be killed, and its
expected counts.

The topology reads lines, writes words to a repartition topic, counts them in a store with a
changelog topic and writes each new count to the output topic. With `exactly_once_v2` and no cache
the counts of a word, as a reader of committed records sees them, are 1, 2, 3, ... without a gap or
a repetition, whatever is killed.
"""

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.crash.load import PARTITIONS
from tests.peer.tools import QUICK_JVM, java_command

SOURCE = "streams-plaintext-input"
TARGET = "streams-wordcount-output"
GROUP = "streams-wordcount"
STORE = f"{GROUP}-KSTREAM-AGGREGATE-STATE-STORE-0000000003"
CHANGELOG = f"{STORE}-changelog"
MAIN = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
TRANSACTION_TIMEOUT_S = 4
SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "num.stream.threads": "2",
    "commit.interval.ms": "50",
    # stores in memory: each start restores from the changelog, after a killed one's transactions
    # have timed out
    "dsl.store.suppliers.class": "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
    "producer.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_S * 1000),
    "reconnect.backoff.max.ms": "100",
    "retry.backoff.ms": "20",
}
BY_PROTOCOL = {
    "classic": {"consumer.session.timeout.ms": "2000", "consumer.heartbeat.interval.ms": "300"},
    "streams": {"group.protocol": "streams"},  # the broker says how long a session is
}
WORDS = [f"word{number}" for number in range(30)]
LINE_WORDS = 4
PAUSE_S = 0.02
REST_S = 120


class WordCount:
    """One instance of the application, in its own JVM."""

    def __init__(self, folder: Path, bootstrap: str, name: str, protocol: str = "classic") -> None:
        self.output = folder / f"{name}.out"
        state = folder / name
        state.mkdir()
        config = folder / f"{name}.properties"
        settings = (
            SETTINGS | BY_PROTOCOL[protocol] | {"bootstrap.servers": bootstrap, "state.dir": str(state)}
        )
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = java_command(MAIN, str(config), jvm=(*QUICK_JVM, f"-Djava.io.tmpdir={state}"))
        with open(self.output, "ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def freeze(self) -> None:
        """Stop the process, so that it misses what happens meanwhile."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it continue as if nothing had happened: a zombie."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill9(self) -> None:
        """Kill it without a clean shutdown; a second call does nothing."""
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        """Its log."""
        return self.output.read_text(errors="replace")

    def was_too_late(self) -> bool:
        """Whether it gave up because its transaction timed out before the commit. If a broker is
        down for longer than the timeout, the transaction is aborted; Apache Kafka answers the
        commit with INVALID_TXN_STATE (tests/compat, "timed-out"), which Streams does not survive.
        """
        reported = self.said()
        return "opted to SHUTDOWN_CLIENT" in reported and "InvalidTxnStateException" in reported

    def was_refused(self) -> bool:
        """Whether it found that another instance has replaced it."""
        return "fenced" in self.said() or self.was_too_late()


class Service:
    """The application under a service manager, which replaces an instance that was killed or has
    given up."""

    def __init__(self, start: Callable[[], WordCount]) -> None:
        self._start = start
        self.instance = start()
        self.replaced = 0

    def kill9(self) -> None:
        """Kill the instance and start the next one."""
        self.instance.kill9()
        self.instance = self._start()

    def tend(self) -> None:
        """Replace an instance whose transaction timed out."""
        if self.instance.was_too_late():
            self.replaced += 1
            self.kill9()


class Lines:
    """A thread with an idempotent producer, which writes random lines until it is stopped and
    counts their words."""

    def __init__(self, bootstrap: str) -> None:
        self.words: Counter[str] = Counter()
        self._failed: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lines")
        self._thread.start()

    def _run(self) -> None:
        source = random.Random(1)
        while not self._stop.is_set():
            words = source.choices(WORDS, k=LINE_WORDS)
            self.words.update(words)
            self._producer.produce(
                SOURCE, " ".join(words), partition=source.randrange(PARTITIONS), on_delivery=self._delivered
            )
            self._producer.poll(0)
            self._stop.wait(PAUSE_S)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def stop(self) -> None:
        """Stop; when this returns, everything is in the log."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(120) == 0
        assert self._failed == []


class Counts:
    """A reader of committed counts. of: word -> every count that was written, in order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.of: dict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "counts",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 100,
                "enable.partition.eof": True,
            }
        )
        self._read_to_end: set[int | None] = set()
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    @property
    def total(self) -> int:
        """Words counted so far."""
        return sum(map(len, self.of.values()))

    def read(self, enough: int, timeout_s: float, service: Service | None = None) -> None:
        """Read until that many words are counted; tend the service meanwhile."""
        deadline = time.monotonic() + timeout_s
        while self.total < enough and time.monotonic() < deadline:
            self._take(0.2)
            if service is not None:
                service.tend()

    def read_rest(self) -> None:
        """Read up to the ends, to find counts that must not exist."""
        deadline = time.monotonic() + REST_S
        while self._take(0.5) or len(self._read_to_end) < PARTITIONS:
            assert time.monotonic() < deadline, "the topic does not end"

    def _take(self, timeout_s: float) -> int:
        messages = self._consumer.consume(500, timeout_s)
        for message in messages:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                self._read_to_end.add(message.partition())
                continue
            assert error is None or error.retriable(), error
            if error is None:
                self._read_to_end.discard(message.partition())
                key, value = message.key(), message.value()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                self.of[key.decode()].append(int.from_bytes(value, "big"))
        return len(messages)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()
