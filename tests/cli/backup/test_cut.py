"""The order in which a cut reads the ends of logs."""

from types import SimpleNamespace

import pytest

from kbroker.cli.backup.cut import Cut, take_cut
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.partitions import Partition

TOPICS = ("__consumer_offsets", "__share_group_state", "__transaction_state", "_schemas", "A", "z")


class Admin:
    """An admin client that lists TOPICS, with a partition each."""

    def list_topics(self, timeout: float) -> object:
        found = {name: type("T", (), {"partitions": [0]})() for name in TOPICS}
        return type("M", (), {"topics": found, "cluster_id": "c"})()


def test_states_of_groups_are_read_before_records_and_schemas_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a restored share group would begin after the end of a log and miss its next records."""
    requested: list[set[str]] = []

    def latest(
        broker: object, admin: object, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        requested.append({name for name, _ in partitions})
        return dict.fromkeys(partitions, 7)

    broker = Connection("", {}, 1)
    monkeypatch.setattr(broker, "admin", Admin)
    monkeypatch.setattr("kbroker.cli.backup.cut.latest", latest)
    monkeypatch.setattr("kbroker.cli.backup.cut.earliest", lambda *_: {})
    cut = take_cut(broker)
    assert requested == [
        {"__transaction_state"},
        {"__consumer_offsets"},
        {"__share_group_state"},
        {"A", "z"},
        {"_schemas"},
        {"__transaction_state"},
    ]
    assert cut.ends == {(name, 0): 7 for name in TOPICS}


class Moving:
    """A broker whose topics and logs change between requests. listed: the topics of each list of
    them, the last one for good; ends: the end of each topic's log at each request, by topic, else
    7."""

    def __init__(self, listed: list[list[str]], **ends: list[int]) -> None:
        self._listed = listed
        self._ends = ends
        self.failures: list[CommandFailed] = []
        self.started: list[list[str]] = []

    def list_topics(self, timeout: float) -> object:
        names = self._listed.pop(0) if len(self._listed) > 1 else self._listed[0]
        found = {name: SimpleNamespace(partitions=[0]) for name in names}
        return SimpleNamespace(topics=found, cluster_id=None)

    def latest(self, _broker: object, _admin: object, places: list[Partition]) -> dict[Partition, int]:
        if self.failures:
            raise self.failures.pop()
        return {place: self._end(place[0]) for place in places}

    def earliest(self, _broker: object, _admin: object, places: list[Partition]) -> dict[Partition, int]:
        self.started.append([name for name, _ in places])
        return dict.fromkeys(places, 1)

    def _end(self, name: str) -> int:
        ends = self._ends.get(name, [7])
        return ends.pop(0) if len(ends) > 1 else ends[0]


def cut_of(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> Cut:
    broker = Connection("", {}, 1)
    monkeypatch.setattr(broker, "admin", lambda: moving)
    monkeypatch.setattr("kbroker.cli.backup.cut.latest", moving.latest)
    monkeypatch.setattr("kbroker.cli.backup.cut.earliest", moving.earliest)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return take_cut(broker)


def test_a_transaction_that_ends_meanwhile_makes_another_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = Moving([["__transaction_state", "a"]], __transaction_state=[1, 2, 3, 3], a=[5, 6])
    cut = cut_of(moving, monkeypatch)
    assert cut.ends == {("__transaction_state", 0): 3, ("a", 0): 6}
    assert cut.starts == {("__transaction_state", 0): 1, ("a", 0): 1}
    assert len(moving.started) == 1
    assert cut.cluster_id == ""


def test_a_topic_that_is_created_meanwhile_is_part_of_the_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = Moving([["a"], ["a", "b"]])
    cut = cut_of(moving, monkeypatch)
    assert cut.ends == {("a", 0): 7, ("b", 0): 7}
    assert moving.started == [["a"], ["a", "b"]]


def test_a_topic_that_is_deleted_after_its_end_was_read_stays_in_the_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moving = Moving([["a", "b"], ["a"]])
    assert cut_of(moving, monkeypatch).ends == {("a", 0): 7, ("b", 0): 7}


def test_a_failure_is_raised_unless_topics_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = Moving([["a", "b"], ["a"]])
    moving.failures = [CommandFailed("b is gone")]
    assert cut_of(moving, monkeypatch).ends == {("a", 0): 7}
    moving = Moving([["a"]])
    moving.failures = [CommandFailed("no broker")]
    with pytest.raises(CommandFailed, match="no broker"):
        cut_of(moving, monkeypatch)


def test_transactions_that_never_pause_have_no_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.cli.backup.cut.ATTEMPTS", 3)
    moving = Moving([["__transaction_state"]], __transaction_state=list(range(100)))
    with pytest.raises(CommandFailed, match="each of 3 attempts"):
        cut_of(moving, monkeypatch)
