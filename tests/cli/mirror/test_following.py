"""A move is complete when the source is idle and everything that it has now is copied."""

from typing import Any

import pytest

from kbroker.cli.failures import CommandFailed, broker_error
from kbroker.cli.mirror import following
from kbroker.cli.mirror.following import Follower, follow
from kbroker.cli.mirror.plan import Plan, PlannedTopic
from kbroker.protocol.errors import ErrorCode

A, B = ("a", 0), ("b", 0)


def follower(said: list[str], quiet_s: float = 3.0) -> Follower:
    return Follower("source:9092", quiet_s, said.append)


def test_a_source_without_writes_and_lag_is_done_after_the_quiet_time() -> None:
    one = follower([])
    observed = [one.observe({A: 0}, {A: 10}, {}, now_s) for now_s in (0.0, 2.0, 3.0)]
    assert observed == [False, False, True]
    assert not one.observe({A: 0}, {A: 11}, {}, 4.0)  # a write starts the time again
    assert not one.observe({A: 0}, {A: 11}, {A: 1}, 9.0)
    assert one.observe({A: 0}, {A: 11}, {}, 9.0)


def test_lag_and_rate_are_reported_and_in_step_once() -> None:
    said: list[str] = []
    one = follower(said)
    one.observe({A: 0}, {A: 100_000}, {A: 90_000}, 0.0)
    one.observe({A: 0}, {A: 100_000}, {A: 80_000}, 1.0)
    assert said[-1] == "20,000 of 100,000 copied (20.0 %), 10,000/s, lag 80,000 in 1 of 1 partition, 8 s left"
    one.observe({A: 0}, {A: 100_000}, {A: 20_000}, 2.0)
    one.observe({A: 0}, {A: 100_000}, {A: 10_000}, 3.0)
    assert sum(line.startswith("in step") for line in said) == 1


class Engine:
    """A copying process that runs."""

    def check(self) -> None:
        """It has not ended."""


class Source:
    """Offsets of a source and positions of its copy. copy: one round of MirrorMaker."""

    timeout_s = 1.0
    bootstrap = "source:9092"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts: dict[tuple[str, int], int] = {A: 0}
        self.ends: dict[tuple[str, int], int] = {A: 5}
        self.copied: dict[tuple[str, int], int] = {A: 5}
        self.now_s = 0.0
        self.rounds: list[Any] = []
        monkeypatch.setattr(
            following, "earliest", lambda broker, admin, places: self._of(self.starts, places)
        )
        monkeypatch.setattr(
            following, "latest", lambda broker, admin, places, committed: self._of(self.ends, places)
        )
        monkeypatch.setattr(following, "Positions", lambda target: self)
        monkeypatch.setattr(following, "left_to_copy", self._left)
        monkeypatch.setattr("time.sleep", self._sleep)
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)

    def admin(self) -> None:
        """No request is sent."""

    def read(self) -> dict[tuple[str, int], int]:
        return self.copied

    def close(self) -> None:
        """As Positions."""

    def plan(self) -> Plan:
        topics = {name: PlannedTopic(name, 1, {}, 1) for name, _ in self.ends}
        return Plan(topics, [], 0, 1, starts=dict(self.starts), ends=dict(self.ends))

    def run(self, plan: Plan, renew: Any) -> list[str]:
        said: list[str] = []
        source: Any = self
        follow(source, source, plan, Engine(), follower(said), 1.0, renew)
        return said

    def _of(self, book: dict[tuple[str, int], int], places: Any) -> dict[tuple[str, int], int]:
        if missing := [place for place in places if place not in book]:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value, None, str(missing))
        return {place: book[place] for place in places}

    def _left(self, source: Any, starts: Any, ends: Any, positions: Any) -> dict[tuple[str, int], int]:
        left = {place: ends[place] - max(positions.get(place, 0), starts[place]) for place in ends}
        return {place: count for place, count in left.items() if count > 0}

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds
        assert self.now_s < 60, "it follows for good"
        if self.rounds:
            self.rounds.pop(0)()


def test_a_topic_that_is_created_meanwhile_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch)
    plan = source.plan()

    def created() -> None:
        source.starts[B], source.ends[B] = 0, 7

    def nothing() -> None:
        pass

    source.rounds = [created, *[nothing] * 8, lambda: source.copied.update({B: 7})]
    said = source.run(plan, lambda plan: source.plan())
    assert source.now_s >= 10
    assert any("lag 7 in 1 of 2 partitions" in line for line in said)
    assert said[-1].startswith("12 of 12 copied")


def test_records_that_expire_before_they_are_copied_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Source(monkeypatch)
    plan = source.plan()
    source.copied = {}
    source.rounds = [lambda: source.starts.update({A: 5})]
    said = source.run(plan, lambda plan: plan)
    assert said[-1].startswith("5 of 5 copied")


def test_a_topic_that_is_deleted_meanwhile_does_not_end_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch)
    source.starts[B] = source.ends[B] = source.copied[B] = 0
    plan = source.plan()

    def deleted() -> None:
        del source.starts[B], source.ends[B]

    plans = iter([plan, plan])  # the listing is older than the deletion
    source.rounds = [deleted]
    assert source.run(plan, lambda plan: next(plans, source.plan()))[-1].startswith("5 of 5 copied")


def test_a_topic_that_stays_unknown_ends_the_move(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(monkeypatch)
    plan = source.plan()
    source.ends.clear()
    with pytest.raises(CommandFailed, match="UNKNOWN_TOPIC_OR_PARTITION"):
        source.run(plan, lambda plan: plan)


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE])
def test_a_change_of_leaders_at_the_source_does_not_end_the_move(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    source = Source(monkeypatch)
    plan = source.plan()
    refusals = [broker_error(code.value, "try again", "a-0")] * 3

    def renew(given: Plan) -> Plan:
        if refusals:
            raise refusals.pop()
        return given

    assert source.run(plan, renew)[-1].startswith("5 of 5 copied")
    assert not refusals
