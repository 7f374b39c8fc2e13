"""A Kafka Streams application with exactly_once_v2 counts exactly while it and the broker's
children are killed."""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.load import create_topic
from tests.crash.word_count import (
    CHANGELOG,
    SOURCE,
    TARGET,
    TRANSACTION_TIMEOUT_S,
    Counts,
    Lines,
    Service,
    WordCount,
)
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.kafka, pytest.mark.timeout(1800)]

KILLS = int(os.environ.get("KBROKER_STREAMS_KILLS", "10"))
CATCH_UP_S = 300
SETTINGS = {
    "num.partitions": "3",
    "log.segment.bytes": "1048576",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "2000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.initial.rebalance.delay.ms": "100",
}
VICTIMS = ("control", "network 0", "application", "io 0", "everything")


@pytest.fixture
def protocol(request: pytest.FixtureRequest) -> str:
    """The group protocol of the application, "classic" unless a test asks for another."""
    return str(getattr(request, "param", "classic"))


@pytest.fixture
def application(kafka_jars: str, tmp_path: Path, protocol: str) -> Iterator[Callable[[str], WordCount]]:
    """Starts instances of the word count; ends them all."""
    started: list[WordCount] = []

    def start(bootstrap: str) -> WordCount:
        started.append(WordCount(tmp_path, bootstrap, f"words-{len(started)}", protocol))
        return started[-1]

    yield start
    for instance in started:
        instance.kill9()


def judge(broker: KBroker, lines: Lines, service: Service) -> None:
    """Every word was counted once: each count from 1 to the number of its words, and the changelog
    agrees."""
    lines.stop()
    counts = Counts(broker.bootstrap, TARGET)
    counts.read(lines.words.total(), CATCH_UP_S, service)
    counts.read_rest()
    counts.close()
    wrong = {
        word: f"{len(counts.of[word])} counts up to {max(counts.of[word], default=0)} for {number} words"
        for word, number in lines.words.items()
        if counts.of[word] != list(range(1, number + 1))
    }
    assert not wrong, f"{wrong}\n{service.instance.said()[-4000:]}"
    store = Counts(broker.bootstrap, CHANGELOG)
    deadline = time.monotonic() + CATCH_UP_S
    while {word: found[-1] for word, found in store.of.items()} != dict(lines.words):
        assert time.monotonic() < deadline, "the changelog does not agree"
        store.read_rest()  # the markers of a transaction reach one partition after another
    store.close()


def counting(
    broker_factory: Callable[..., KBroker], application: Callable[[str], WordCount]
) -> tuple[KBroker, Lines, Service, Counts]:
    """A broker, the lines that are produced, an application that counts their words, and its first
    counts."""
    broker = broker_factory(SETTINGS)
    for topic in (SOURCE, TARGET):
        create_topic(broker.bootstrap, topic)
    lines = Lines(broker.bootstrap)
    service = Service(lambda: application(broker.bootstrap))
    progress = Counts(broker.bootstrap, TARGET)
    progress.read(100, CATCH_UP_S, service)
    assert progress.total >= 100, service.instance.said()[-4000:]
    return broker, lines, service, progress


@pytest.mark.parametrize(
    ("protocol", "kills"), [("classic", KILLS), ("streams", KILLS // 2)], indirect=["protocol"]
)
def test_word_count_is_exact_after_a_kill_of_any_process(
    broker_factory: Callable[..., KBroker], application: Callable[[str], WordCount], kills: int
) -> None:
    broker, lines, service, progress = counting(broker_factory, application)
    for number in range(kills):
        time.sleep(random.Random(number).uniform(0.2, 1.0))
        victim = VICTIMS[number % len(VICTIMS)]
        if victim == "application":
            service.kill9()
            progress.read(progress.total + 100, CATCH_UP_S, service)
        elif victim == "everything":
            broker.kill9()
            broker.start()
        else:
            broker.kill9_running(victim)
    progress.close()
    judge(broker, lines, service)
    print(f"{kills} kills, {lines.words.total()} words counted")
    broker.stop()


def test_word_count_is_exact_after_its_transactions_timed_out(
    broker_factory: Callable[..., KBroker], application: Callable[[str], WordCount]
) -> None:
    broker, lines, service, progress = counting(broker_factory, application)
    for _ in range(3):
        broker.kill9()
        time.sleep(TRANSACTION_TIMEOUT_S + 1)
        broker.start()
        progress.read(progress.total + 100, CATCH_UP_S, service)
    progress.close()
    judge(broker, lines, service)
    print(f"{service.replaced} instances gave up")
    broker.stop()


def test_a_zombie_is_fenced(
    broker_factory: Callable[..., KBroker], application: Callable[[str], WordCount]
) -> None:
    broker, lines, first, progress = counting(broker_factory, application)
    zombie = first.instance
    zombie.freeze()
    successor = Service(lambda: application(broker.bootstrap))
    progress.read(progress.total + 400, CATCH_UP_S, successor)
    progress.close()
    zombie.thaw()
    deadline = time.monotonic() + CATCH_UP_S
    while not zombie.was_refused() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert zombie.was_refused(), zombie.said()[-4000:]
    judge(broker, lines, successor)
    broker.stop()
