"""The rows of what a member is assigned."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import TopicPartition

from loadtest.players.membership import NONE, Membership


class Broker:
    """Answers with a committed offset; keeps what is assigned."""

    def __init__(self) -> None:
        self.assigned: list[tuple[str, int, int]] = []

    def committed(self, places: list[TopicPartition], _seconds: float) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, 7) for place in places]

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned += [(place.topic, place.partition, place.offset) for place in places]


@pytest.fixture
def member() -> Any:
    found = object.__new__(Membership)
    found.player, found.history = MagicMock(), MagicMock()
    found.player.clock.now_ns.return_value = 5
    found.number, found.topic, found.group = 3, "own", "own-readers"
    found.inbox = SimpleNamespace(next_offsets={0: 4, 1: 4}, take=MagicMock())  # type: ignore[assignment]
    found._held, found._held_ns, found._next_take = [], [], 0.0
    found.ordinals, found._next_ordinal, found._committed = {}, 0, {}
    found._cooperative = False
    found._client = MagicMock(role="load")
    return found


def rows(member: Any) -> list[tuple[str, int, list[int], list[int]]]:
    calls = (call.args[1] for call in member.history.add.call_args_list)
    return [(row["topic"], row["event"], row["partition"], row["start_offset"]) for row in calls]


def test_a_partition_of_another_topic_is_noted_as_such(member: Any) -> None:
    broker = Broker()
    given = [TopicPartition("own", 0), TopicPartition("other", 1)]
    member._given(broker, given)
    assert rows(member) == [("other", 0, [1], [NONE]), ("own", 0, [0], [7])]
    assert member.ordinals == {0: 0}
    assert broker.assigned == [("own", 0, 7), ("other", 1, NONE)]
    member._lost(broker, given)
    assert rows(member)[2:] == [("own", 2, [0], [NONE])]
    assert member.ordinals == {}
