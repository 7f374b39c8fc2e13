"""The rows of what a member is assigned."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from loadtest.history import UNKNOWN_START
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
    calls = (
        row
        for kind, row in (call.args for call in member.history.add.call_args_list)
        if kind == "assignments"
    )
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


def place(partition: int, error: Any = None) -> Any:
    return SimpleNamespace(partition=partition, error=error)


def commits(member: Any) -> list[tuple[list[int], list[int], list[int], list[int]]]:
    """(partitions, offsets, assignments, errors) of each row block of commits."""
    calls = [call.args for call in member.history.add.call_args_list]
    return [
        (row["partition"], row["offset"], row["assignment"], row["error"])
        for kind, row in calls
        if kind == "commits"
    ]


def test_only_offsets_that_moved_are_committed_and_refused_ones_again(member: Any) -> None:
    member.ordinals = {0: 6, 1: 7}
    refused = SimpleNamespace(code=lambda: 27)
    member.consumer = MagicMock()
    member.consumer.commit.side_effect = [[place(0), place(1, refused)], [place(1)], []]
    member.commit()
    member.commit()
    member.commit()
    assert commits(member) == [([0, 1], [4, 4], [6, 7], [0, 27]), ([1], [4], [7], [0])]
    member.inbox.next_offsets[0] = 5
    member.commit([1])
    assert len(commits(member)) == 2
    member.commit()
    assert commits(member)[2:] == [([0], [5], [6], [0])]


def test_a_commit_that_fails_as_a_whole_is_refused_for_each_partition(member: Any) -> None:
    member.ordinals = {0: 6, 1: 7}
    member.consumer = MagicMock()
    member.consumer.commit.side_effect = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    member.commit()
    code = KafkaError._TIMED_OUT
    assert commits(member) == [([0, 1], [4, 4], [6, 7], [code, code])]
    assert member._committed == {}


def test_a_partition_without_a_record_is_not_committed(member: Any) -> None:
    member.ordinals = {2: 6}
    member.consumer = MagicMock()
    member.commit()
    assert not member.consumer.commit.called
    assert not member.history.add.called


def test_a_rewind_is_an_assignment_of_the_partitions_that_are_still_held(member: Any) -> None:
    member.ordinals, member._next_ordinal = {0: 3}, 4
    member.consumer = MagicMock()
    member.rewind({0: 2, 1: 1})
    assert [call.args[0].offset for call in member.consumer.seek.call_args_list] == [2]
    assert member.inbox.next_offsets == {0: 2, 1: 4}
    assert rows(member) == [("own", 0, [0], [2])]
    assert member.ordinals == {0: 4}


def test_an_answer_that_did_not_come_is_no_answer(member: Any) -> None:
    """-1001 means that the broker named no offset, so the reset policy decides."""
    broker: Any = MagicMock()
    broker.committed.side_effect = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    member._given(broker, [TopicPartition("own", 1)])
    broker.committed.side_effect = None
    broker.committed.return_value = [SimpleNamespace(topic="own", partition=1, offset=NONE, error=None)]
    member._given(broker, [TopicPartition("own", 1)])
    assert rows(member) == [("own", 0, [1], [UNKNOWN_START]), ("own", 0, [1], [NONE])]
    assert [place.offset for place in broker.assign.call_args.args[0]] == [NONE]
    assert member.inbox.next_offsets == {0: 4}


def rows_of_assignments(member: Any) -> list[tuple[int, list[int], list[int]]]:
    calls = [call.args for call in member.history.add.call_args_list]
    return [
        (row["event"], row["partition"], row["assignment"]) for kind, row in calls if kind == "assignments"
    ]


@pytest.mark.parametrize(("role", "committed"), [("load", True), ("copy", False)])
def test_a_member_commits_what_it_gives_back_and_a_copier_does_not(
    member: Any, role: str, committed: bool
) -> None:
    member._client.role = role
    member.ordinals, member.consumer = {0: 6, 1: 7}, MagicMock()
    member.consumer.commit.return_value = []
    member._taken(member.consumer, [TopicPartition("own", 1)])
    assert member.consumer.commit.called is committed
    assert rows_of_assignments(member) == [(1, [1], [7])]
    assert member.ordinals == {0: 6}
    assert commits(member) == ([([1], [4], [7], [0])] if committed else [])
