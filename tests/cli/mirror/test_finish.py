"""The end of a move leaves what is not its own."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.mirror import finish
from kbroker.cli.mirror.comparing import Difference
from kbroker.cli.mirror.engine import HEARTBEATS, OFFSETS_TOPIC
from kbroker.cli.mirror.finish import Outcome


@pytest.mark.parametrize(
    ("records", "expected"),
    [(0, {OFFSETS_TOPIC, HEARTBEATS}), (5, {OFFSETS_TOPIC})],
    ids=["own", "of others"],
)
def test_a_topic_heartbeats_with_records_is_kept(
    monkeypatch: pytest.MonkeyPatch, records: int, expected: set[str]
) -> None:
    """MirrorMaker creates it if it is missing, and writes nothing to it."""
    deleted: set[str] = set()
    topics = {name: SimpleNamespace(partitions=[0]) for name in ("orders", OFFSETS_TOPIC, HEARTBEATS)}

    def delete(names: list[str], request_timeout: float) -> dict[str, Any]:
        deleted.update(names)
        return {}

    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics), delete_topics=delete)
    target: Any = SimpleNamespace(admin=lambda: admin, timeout_s=1.0)
    monkeypatch.setattr(finish, "latest", lambda target, admin, there: dict.fromkeys(there, records))
    finish.remove_own_topics(target)
    assert deleted == expected


def test_an_outcome_is_clean_if_each_partition_is() -> None:
    clean = Difference(("a", 0), 5, 6, duplicates=1)
    assert clean.clean
    outcome = Outcome([clean, Difference(("a", 1), 7, 7, duplicates=2)])
    assert (outcome.records, outcome.duplicates, outcome.clean) == (12, 3, True)
    assert Outcome().clean
    for wrong in (
        Difference(("a", 2), 1, 0, missing=1),
        Difference(("a", 2), 0, 1, foreign=1),
        Difference(("a", 2), 2, 2, ordered=False),
    ):
        assert not Outcome([clean, wrong]).clean


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (
            Difference(("a", 2), 1, 0, missing=1, examples=[5]),
            "a-2: 1 record at the source, 0 at the target, 1 missing, first at the source's offsets [5]",
        ),
        (
            Difference(("a", 0), 1200, 1201, foreign=1),
            "a-0: 1,200 records at the source, 1,201 at the target, 1 that the source lacks",
        ),
        (
            Difference(("a", 0), 2, 3, duplicates=1, ordered=False),
            "a-0: 2 records at the source, 3 at the target, 1 twice, out of order",
        ),
    ],
)
def test_a_difference_is_described_in_a_line(difference: Difference, text: str) -> None:
    assert finish.describe(difference) == text


class Broker:
    """One side of a move."""

    def admin(self) -> None:
        pass


class Move:
    """The steps of the end of a move, as `finish` takes them. clean: by partition number, whether
    its records are equal on both sides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *clean: bool) -> None:
        self.steps: list[str] = []
        self.said: list[str] = []
        self.groups: Any = SimpleNamespace(
            active=["busy"],
            moved=["b", "a"],
            translate=lambda partition, *_: self.steps.append(f"translate {partition[1]}"),
            commit=self._commit,
        )
        self._clean = clean
        self._source: Any = Broker()
        self._target: Any = Broker()
        reading = SimpleNamespace(read=lambda *_: self.groups)
        steps: dict[str, Any] = {
            "add_partitions": lambda *_: self.steps.append("partitions"),
            "copy_acls": lambda *_: self.steps.append("acls"),
            "copy_quotas": lambda *_: self.steps.append("quotas"),
            "GroupOffsets": reading,
            "earliest": lambda _broker, _admin, places: dict.fromkeys(places, 0),
            "latest": lambda _broker, _admin, places, committed: dict.fromkeys(
                places, 9 if committed else 10
            ),
            "read_partition": lambda _broker, _partition, start, end: (start, end),
            "compare": self._compare,
            "apply_settings": self._settings,
        }
        for name, step in steps.items():
            monkeypatch.setattr(finish, name, step)

    def _compare(
        self, partition: Any, here: object, there: object, compacted: bool, expires: bool
    ) -> Difference:
        assert (here, there, compacted, expires) == ((0, 9), (0, 9), True, False)
        return Difference(partition, 5, 5, ordered=self._clean[partition[1]])

    def _settings(self, target: object, _plan: object, copied: bool) -> list[str]:
        assert target is self._target
        assert copied
        self.steps.append("settings")
        return ["a setting"]

    def _commit(self, target: object) -> list[str]:
        assert target is self._target
        self.steps.append("commit")
        return ["a group"]

    def end(self) -> Outcome:
        topics = {"t": SimpleNamespace(compacted=True, expires=False)}
        places = [("t", number) for number in range(len(self._clean))]
        plan: Any = SimpleNamespace(groups=[], topics=topics, partitions=places)
        return finish.finish(self._source, self._target, plan, self.said.append)


BUSY = "group busy has members at the source: stop its consumers"


def test_offsets_of_groups_are_set_last_and_after_a_clean_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Move(monkeypatch, True, True)
    outcome = move.end()
    assert move.steps == [
        "partitions", "acls", "quotas", "translate 0", "translate 1", "settings", "commit"
    ]  # fmt: skip
    assert (outcome.groups, outcome.remarks) == (["a", "b"], [BUSY, "a setting", "a group"])
    assert (outcome.clean, move.said) == (True, [])


def test_no_group_is_moved_over_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    move = Move(monkeypatch, True, False)
    outcome = move.end()
    assert move.steps == ["partitions", "acls", "quotas", "translate 0", "settings"]
    assert (outcome.groups, outcome.remarks) == ([], [BUSY, "a setting"])
    assert move.said == ["t-1: 5 records at the source, 5 at the target, out of order"]
