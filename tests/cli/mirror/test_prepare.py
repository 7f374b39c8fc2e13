"""The target gets the source's topics, partitions and settings, also those that are created
meanwhile."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.failures import CommandFailed, broker_error
from kbroker.cli.mirror import prepare
from kbroker.cli.mirror.plan import Plan, PlannedTopic, Setting, _check_existing
from kbroker.cli.mirror.prepare import add_partitions, copy_acls, renewed, settings_to_set
from kbroker.config.acls import Acl
from kbroker.protocol.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def topic(name: str, partitions: int, at_target: int = 0, **settings: str) -> PlannedTopic:
    own = {key.replace("_", "."): Setting(value, "topic") for key, value in settings.items()}
    return PlannedTopic(name, partitions, own, at_target)


def plan_of(*topics: PlannedTopic, continues: bool = False) -> Plan:
    return Plan({one.name: one for one in topics}, [], 0, 3, continues)


class Future:
    """The answer for a topic: done, or refused with this error."""

    def __init__(self, refusal: ErrorCode | None = None, topic_id: str = "") -> None:
        self.refusal = refusal
        self.topic_id = topic_id

    def result(self) -> "Future":
        if self.refusal is not None:
            raise broker_error(self.refusal.value, "x")
        return self


class Cluster:
    """A cluster that has these topics: name -> number of partitions."""

    timeout_s = 1.0

    def __init__(self, **topics: int) -> None:
        self.held = topics
        self.created = 1
        self.requests: list[tuple[str, int, int]] = []

    def admin(self) -> Any:
        return self

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(
            topics={name: SimpleNamespace(partitions=range(count)) for name, count in self.held.items()}
        )

    def describe_topics(self, topics: Any, **_: float) -> dict[str, Future]:
        """Ids that change with `created`."""
        return {
            name: Future(topic_id=f"{name} {self.created}") if name in self.held else Future(UNKNOWN)
            for name in topics.topic_names
        }

    def create_topics(self, topics: list[Any], **_: float) -> dict[str, Future]:
        answers = {}
        for one in topics:
            self.requests.append((one.topic, one.num_partitions, one.replication_factor))
            answers[one.topic] = Future(ErrorCode.TOPIC_ALREADY_EXISTS if one.topic in self.held else None)
            self.held.setdefault(one.topic, one.num_partitions)
        return answers

    def create_partitions(self, grown: list[Any], **_: float) -> dict[str, Future]:
        answers = {}
        for one in grown:
            has = self.held[one.topic] >= one.new_total_count
            answers[one.topic] = Future(ErrorCode.INVALID_PARTITIONS if has else None)
            self.held[one.topic] = one.new_total_count
        return answers


def test_missing_topics_and_partitions_are_created() -> None:
    target: Any = Cluster(same=2, grown=1)
    plan = plan_of(topic("same", 2, 2), topic("grown", 3, 1), topic("new", 4), continues=True)
    add_partitions(target, plan)
    assert target.held == {"same": 2, "grown": 3, "new": 4}
    assert target.requests == [("new", 4, 3)]
    add_partitions(target, plan)  # nothing is left to create
    assert len(target.requests) == 1


def test_topics_that_mirrormaker_has_created_meanwhile_are_accepted() -> None:
    target: Any = Cluster(new=2, grown=3)
    add_partitions(target, plan_of(topic("new", 2), topic("grown", 3, 1), continues=True))
    with pytest.raises(CommandFailed, match="TOPIC_ALREADY_EXISTS"):  # by another client, before the copy
        add_partitions(target, plan_of(topic("new", 2)))


def test_only_a_continued_move_accepts_fewer_partitions_at_the_target() -> None:
    target: Any = Cluster()
    _check_existing(target, topic("orders", 3, 2), continues=True)
    for at_target, continues in ((2, False), (4, True)):
        with pytest.raises(CommandFailed, match=f"3 partitions at the source and {at_target} at the target"):
            _check_existing(target, topic("orders", 3, at_target), continues=continues)


def test_new_topics_and_partitions_are_prepared_at_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    source: Any = Cluster(orders=1, gone=1)
    target: Any = Cluster(orders=1, gone=1)
    plan = plan_of(topic("orders", 1, 1), topic("gone", 1, 1))
    fresh = plan_of(topic("orders", 2, 1), topic("late", 3, retention_ms="7"), continues=True)
    configured: list[str] = []

    def apply(target: object, plan: Plan, copied: bool) -> list[str]:
        configured.extend(plan.topics)
        return ["a remark"]

    monkeypatch.setattr(prepare, "make_plan", lambda *_, continues: fresh)
    monkeypatch.setattr(prepare, "apply_settings", apply)
    said: list[str] = []
    assert renewed(source, target, plan, [], said.append) is plan
    assert said == []
    source.held = {"orders": 2, "late": 3, "__consumer_offsets": 50}
    assert renewed(source, target, plan, [], said.append) is fresh
    assert target.held == {"orders": 2, "gone": 1, "late": 3}
    assert configured == ["late"]  # settings of the others are applied at the end
    assert said == [
        "new at the source: late",
        "deleted at the source, and kept at the target: gone",
        "a remark",
    ]
    with pytest.raises(CommandFailed, match="has no topic gone"):
        renewed(source, target, plan, ["gone"], said.append)


@pytest.mark.parametrize("seen_meanwhile", [False, True])
def test_a_topic_that_was_deleted_and_created_again_ends_the_move(
    seen_meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as many partitions as before; the move may see the source without it, or not."""
    source: Any = Cluster(orders=1, other=1)
    target: Any = Cluster(orders=1, other=1)
    plan = plan_of(topic("orders", 1, 1), topic("other", 1, 1))
    monkeypatch.setattr(prepare, "make_plan", lambda *_, continues: plan_of(topic("other", 1, 1)))
    monkeypatch.setattr(prepare, "apply_settings", lambda *_, **__: [])
    plan = renewed(source, target, plan, [], lambda _: None)
    if seen_meanwhile:
        del source.held["orders"]
        plan = renewed(source, target, plan, [], lambda _: None)
        assert list(plan.topics) == ["other"]
    source.held["orders"] = 1
    source.created = 2
    with pytest.raises(CommandFailed, match="orders was deleted and created again"):
        renewed(source, target, plan, [], lambda _: None)


@pytest.mark.parametrize(("refusal", "ends"), [(UNKNOWN, False), (ErrorCode.REQUEST_TIMED_OUT, True)])
def test_a_topic_that_goes_between_two_requests_does_not_end_the_move(
    refusal: ErrorCode, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the list of topics, and has no id: deleted since, or new to a broker of a
    cluster."""
    source: Any = Cluster(orders=1, other=1)
    target: Any = Cluster(orders=1, other=1)
    plan = plan_of(topic("orders", 1, 1), topic("other", 1, 1))
    answers = {"orders": Future(refusal), "other": Future(topic_id="1")}
    monkeypatch.setattr(source, "describe_topics", lambda *_, **__: answers)
    if ends:
        with pytest.raises(CommandFailed, match=refusal.name):
            renewed(source, target, plan, [], lambda _: None)
    else:
        assert renewed(source, target, plan, [], lambda _: None) is plan
        assert plan.ids == {"other": "1"}


class Held(list[Acl]):
    """ACLs of the target, and how often all of them were read."""

    reads = 0

    def __iter__(self) -> Iterator[Acl]:
        self.reads += 1
        return super().__iter__()


def test_only_missing_acls_are_created_and_those_of_the_target_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acls = [Acl(2, f"t{number}", 3, "User:ann", "*", 3, 3) for number in range(5)]
    held = Held(acls[:3])
    created: list[Acl] = []
    source: Any = Cluster()
    target: Any = Cluster()
    monkeypatch.setattr(prepare, "acls_of", lambda broker: held if broker is target else acls)
    monkeypatch.setattr(prepare, "create_acls", lambda _, missing: created.extend(missing))
    assert copy_acls(source, target) == 2
    assert created == acls[3:]
    assert held.reads == 1


def test_settings_that_the_target_has_already_are_not_set() -> None:
    one = topic("orders", 1, retention_ms="7", segment_bytes="9", kbroker_x="1")
    one.settings["cleanup.policy"] = Setting("compact", "server.properties")
    one.settings["flush.ms"] = Setting("5", "default")
    target = {
        "retention.ms": Setting("7", "topic"),
        "segment.bytes": Setting("9", "default"),  # its default may change
        "cleanup.policy": Setting("delete", "default"),
        "flush.ms": Setting("6", "default"),
    }
    sets, unknown = settings_to_set(one, target, 3, copied=False)
    assert sets == {"segment.bytes": "9", "cleanup.policy": "compact"}
    assert unknown == ["kbroker.x"]


def test_timestamp_settings_wait_until_all_is_copied() -> None:
    one = topic("orders", 1, message_timestamp_type="LogAppendTime")
    target = {"message.timestamp.type": Setting("CreateTime", "default")}
    assert settings_to_set(one, target, 3, copied=False)[0] == {}
    assert settings_to_set(one, target, 3, copied=True)[0] == {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.parametrize(("own", "factor", "expected"), [("3", 2, "2"), ("2", 3, "2"), ("2", 1, None)])
def test_min_insync_replicas_fits_the_replication_factor(own: str, factor: int, expected: str | None) -> None:
    one = topic("orders", 1, min_insync_replicas=own)
    target = {"min.insync.replicas": Setting("1", "default")}
    sets, _ = settings_to_set(one, target, factor, copied=False)
    assert sets.get("min.insync.replicas") == expected
