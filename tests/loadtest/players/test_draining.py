"""A drain is finished once it has read each partition up to the end for its isolation level."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from loadtest.players.draining import DrainingPlayer
from loadtest.run import PartitionEnds

LOST = KafkaException(KafkaError(KafkaError._TRANSPORT))


class Drain(DrainingPlayer):
    """A drain without a process. taken: the offsets that its inbox was given."""

    def __init__(self, isolation: str) -> None:
        part: Any = SimpleNamespace(label=isolation)
        self.part = part
        self.taken: list[tuple[int, int]] = []
        self.next_offsets = {0: 99}

    @property
    def stopping(self) -> bool:
        return False

    def look_around(self) -> None:
        pass

    def take(self, _topic: str, messages: list[Any], assignment: Any) -> None:
        self.taken += [(message.partition(), message.offset()) for message in messages]
        assert assignment(0) == -1


class Broker:
    """Gives events, a list each poll, and nothing afterwards."""

    def __init__(self, *polls: Any) -> None:
        self._polls = list(polls)
        self.assigned: list[tuple[int, int]] = []

    def assign(self, places: list[Any]) -> None:
        self.assigned = [(place.partition, place.offset) for place in places]

    def consume(self, _count: int, _seconds: float) -> Any:
        found = self._polls.pop(0) if self._polls else []
        if isinstance(found, KafkaException):
            raise found
        return found


def record(partition: int, offset: int) -> Any:
    return SimpleNamespace(error=lambda: None, partition=lambda: partition, offset=lambda: offset)


def end(partition: int, offset: int) -> Any:
    error = KafkaError(KafkaError._PARTITION_EOF)
    return SimpleNamespace(error=lambda: error, partition=lambda: partition, offset=lambda: offset)


def read(drain: Drain, broker: Broker, **ends: tuple[int, int, int]) -> bool:
    """ends: start, high watermark and last stable offset of p0, p1 ..."""
    known = {name[1:]: PartitionEnds(*each) for name, each in ends.items()}
    consumer: Any = broker
    inbox: Any = drain
    return drain._read(consumer, inbox, "t", known)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds pass with each reading of the clock."""
    now_s = [0.0]

    def later() -> float:
        now_s[0] += 10.0
        return now_s[0]

    monkeypatch.setattr(time, "monotonic", later)


@pytest.mark.parametrize(
    ("isolation", "reached", "finished"),
    [
        ("read_committed", 6, False),
        ("read_committed", 7, True),
        ("read_uncommitted", 7, False),
        ("read_uncommitted", 9, False),
        ("read_uncommitted", 10, True),
    ],
)
def test_a_partition_is_read_up_to_its_end(isolation: str, reached: int, finished: bool) -> None:
    assert read(Drain(isolation), Broker([end(0, reached)]), p0=(2, 10, 7)) is finished


def test_each_partition_is_read_from_its_start_and_its_records_are_kept() -> None:
    drain, broker = Drain("read_uncommitted"), Broker([record(1, 3), record(0, 2)], [end(1, 4), end(0, 3)])
    assert read(drain, broker, p0=(2, 3, 3), p1=(3, 4, 4))
    assert sorted(broker.assigned) == [(0, 2), (1, 3)]
    assert drain.taken == [(1, 3), (0, 2)]
    assert drain.next_offsets == {}


def test_one_partition_that_is_not_read_to_its_end_leaves_the_topic_unfinished() -> None:
    assert not read(Drain("read_uncommitted"), Broker([end(0, 3)]), p0=(0, 3, 3), p1=(0, 3, 3))


def test_an_empty_partition_has_been_read() -> None:
    drain = Drain("read_committed")
    assert read(drain, Broker(), p0=(5, 5, 5), p1=(0, 9, 0))
    assert not read(Drain("read_uncommitted"), Broker(), p0=(5, 5, 5), p1=(0, 9, 0))


def test_a_lost_broker_is_asked_again() -> None:
    broker = Broker(LOST, LOST, [record(0, 0)], LOST, [end(0, 1)])
    assert read(Drain("read_committed"), broker, p0=(0, 1, 1))


def test_a_broker_that_gives_nothing_is_given_up_and_one_that_gives_records_is_not() -> None:
    silent: list[list[Any]] = [[]] * 10
    assert not read(Drain("read_committed"), Broker(*silent, [end(0, 1)]), p0=(0, 1, 1))
    slow = [[record(0, offset)] for offset in range(20)]
    assert read(Drain("read_committed"), Broker(*slow, [end(0, 20)]), p0=(0, 20, 20))
