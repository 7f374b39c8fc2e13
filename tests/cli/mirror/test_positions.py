"""MirrorMaker's positions and what is left to copy."""

import itertools
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kbroker.cli.mirror import positions
from kbroker.cli.mirror.engine import OFFSETS_TOPIC
from kbroker.cli.mirror.positions import Positions, left_to_copy, parse_position

A, B = ("a", 0), ("b", 1)
MAX_POLLS = 1000


def key(topic: object = "orders", partition: object = 3, connector: str = "MirrorSourceConnector") -> bytes:
    return json.dumps([connector, {"cluster": "source", "topic": topic, "partition": partition}]).encode()


def test_the_next_offset_follows_the_copied_one() -> None:
    assert parse_position(key(), b'{"offset": 41}') == (("orders", 3), 42)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (None, b"{}"),
        (key(), None),  # MirrorMaker removes the position of a partition
        (key(connector="MirrorCheckpointConnector"), b'{"offset": 41}'),
        (b"not json", b"{}"),
        (b"[1]", b"{}"),
        (key(partition=None), b'{"offset": 41}'),
        (key(), b"{}"),
        (key(), b"[]"),
        (key(), b'{"offset": Infinity}'),
        (key(), b"[" * 100_000),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_other_records_are_no_positions(found: bytes | None, value: bytes | None) -> None:
    assert parse_position(found, value) is None


def test_offsets_above_the_position_and_the_start_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def without_records(source: object, tails: list[object], ends: object, left: object) -> list[object]:
        asked.extend(tails)
        return [B]  # only transaction markers

    monkeypatch.setattr(positions, "_without_records", without_records)
    ends = {A: 100, B: 100, ("c", 0): 100, ("d", 0): 50}
    starts = {A: 0, B: 90, ("c", 0): 0, ("d", 0): 50}
    left = left_to_copy(None, starts, ends, {A: 40, B: 30, ("c", 0): 100})  # type: ignore[arg-type]
    assert left == {A: 60}
    assert asked == [B]  # a partition with more offsets left is not read


class Message:
    """A record of MirrorMaker's offsets, which copied the offset `copied` last; the end of a
    partition if that is None."""

    def __init__(self, partition: int, offset: int, copied: int | None) -> None:
        self._partition = partition
        self._offset = offset
        self._copied = copied

    def error(self) -> object:
        return SimpleNamespace(code=lambda: KafkaError._PARTITION_EOF) if self._copied is None else None

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return key("orders", self._partition)

    def value(self) -> bytes:
        return json.dumps({"offset": self._copied}).encode()


class Target:
    """A cluster with MirrorMaker's topic. batches: what a consumer gets, poll after poll."""

    timeout_s = 60.0

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, ends: dict[int, int], batches: Iterator[list[Message]]
    ) -> None:
        self.ends = ends
        self.batches = batches
        self.polls = 0
        monkeypatch.setattr(positions, "latest", self._latest)

    def admin(self) -> Any:
        topics = {OFFSETS_TOPIC: SimpleNamespace(partitions=self.ends)}
        return SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))

    def consumer(self, settings: dict[str, object]) -> Any:
        assert settings["isolation.level"] == "read_committed"
        return SimpleNamespace(assign=lambda places: None, consume=self._consume)

    def _consume(self, count: int, seconds: float) -> list[Message]:
        self.polls += 1
        assert self.polls < MAX_POLLS
        return next(self.batches)

    def _latest(self, target: Any, admin: Any, places: Any, committed: bool) -> dict[tuple[str, int], int]:
        assert committed
        return {place: self.ends[place[1]] for place in places}


def test_a_read_ends_while_mirror_maker_commits_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --exactly-once it commits with each transaction, many times a second."""
    endless = ([Message(0, offset, 10 * offset)] for offset in itertools.count())
    target: Any = Target(monkeypatch, {0: 3, 1: 0}, endless)
    found = Positions(target)
    assert found.read() == {("orders", 0): 21}
    target.ends[0] = 5
    assert found.read() == {("orders", 0): 41}
    assert target.polls == 5


def test_a_marker_behind_the_last_position_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [[Message(0, 0, 7)], [], [Message(0, 2, None), Message(1, 4, 3)]]
    target: Any = Target(monkeypatch, {0: 2, 1: 5}, iter(batches))
    found = Positions(target)
    assert found.read() == {("orders", 0): 8, ("orders", 1): 4}
    assert found.read() == {("orders", 0): 8, ("orders", 1): 4}  # nothing new: no poll
    assert target.polls == 3
