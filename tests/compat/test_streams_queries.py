"""Interactive queries of Kafka Streams: an application asks its own store, which a successor
without its files restores from the changelog topic."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.java import has_compiler
from tests.peer.kbroker_node import KBroker
from tests.peer.program import program
from tests.peer.tools import java_command

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

PROGRAM = Path(__file__).parents[1] / "peer" / "programs" / "CountedWords.java"
TOPIC = "sentences"
PARTITIONS = 3
LINES = ("the quick brown fox", "the lazy dog", "the end")


def produce(node: KBroker) -> Counter[str]:
    """The lines, once; their words."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number, line in enumerate(LINES):
        producer.produce(TOPIC, line, partition=number % PARTITIONS)
    assert producer.flush(120) == 0
    return Counter(word for line in LINES for word in line.split())


@contextmanager
def answers(node: KBroker, folder: Path, words: int) -> Iterator[dict[str, tuple[int, int]]]:
    """An application that is killed at the end, and its answers: count and partition by word."""
    folder.mkdir()
    output = folder / "out"
    arguments = (node.bootstrap, str(folder / "state"), TOPIC, str(words))
    with (
        output.open("wb") as out,
        program(java_command(str(PROGRAM), *arguments), stdout=out, stderr=out) as running,
    ):
        eventually(lambda: "answered\n" in output.read_text() or running.poll() is not None)
        assert running.poll() is None, output.read_text()
        lines = [line.split() for line in output.read_text().splitlines()]
        yield {
            line[0]: (int(line[1]), int(line[2])) for line in lines if len(line) == 3 and line[1].isdigit()
        }


def test_a_store_answers_and_is_restored_from_its_changelog(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    if not has_compiler():
        pytest.skip("this Java has no compiler")
    node = broker_factory({"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"})
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(120)
    expected = produce(node)
    with answers(node, tmp_path / "one", expected.total()) as found:
        assert {word: count for word, (count, _) in found.items()} == expected
        places = {word: partition for word, (_, partition) in found.items()}
        assert len(set(places.values())) > 1
    expected += produce(node)
    with answers(node, tmp_path / "two", expected.total()) as found:
        assert {word: count for word, (count, _) in found.items()} == expected
        assert {word: partition for word, (_, partition) in found.items()} == places
