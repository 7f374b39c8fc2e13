"""Offsets that a command acts on."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import OffsetSpec

from kbroker.cli import partitions
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.partitions import MAX_PARTITIONS, Partition, parse_scope

ORDERS = ("orders", 0)


def test_a_record_that_comes_meanwhile_is_not_before_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log ends at 5 without a record of that time; then the sixth, which is later, is
    written."""
    log_end = 5

    def list_offsets(
        _broker: object, _admin: object, spec: Any, requested: list[Partition], *, committed: bool = False
    ) -> dict[Partition, tuple[int, int]]:
        nonlocal log_end
        answer = log_end if type(spec) is type(OffsetSpec.latest()) else -1
        log_end = 6
        return dict.fromkeys(requested, (answer, -1))

    monkeypatch.setattr(partitions, "list_offsets", list_offsets)
    no_client = cast("Any", None)
    assert partitions.before_time(no_client, no_client, [ORDERS], 1_000_000) == {ORDERS: 5}


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("t", ("t", [])),
        ("t:0", ("t", [0])),
        ("t:0,3-5", ("t", [0, 3, 4, 5])),
        ("t:7-7,1", ("t", [7, 1])),
        (f"t:0-{MAX_PARTITIONS}", ("t", list(range(MAX_PARTITIONS + 1)))),
    ],
)
def test_a_scope_names_partitions_or_all(text: str, scope: tuple[str, list[int]]) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t:5-3", "5-3 ends before it begins"),
        (f"t:0-{MAX_PARTITIONS + 1}", "names too many partitions"),
        *((text, "expected TOPIC") for text in ("", ":0", "t:", "t:a", "t:0,", "t:-1", "t:1-", "t:0:1")),
    ],
)
def test_a_wrong_scope_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageFailed, match=why):
        parse_scope(text)


class Admin:
    """Topics "a" of three partitions and "b" of one."""

    def list_topics(self, timeout: float) -> Any:
        assert timeout == 5
        sizes = {"b": 1, "a": 3}
        topics = {
            name: SimpleNamespace(partitions=dict.fromkeys(reversed(range(size))))
            for name, size in sizes.items()
        }
        return SimpleNamespace(topics=topics)


ADMIN = cast("Any", Admin())


@pytest.mark.parametrize(
    ("scopes", "found"),
    [
        (["a"], [("a", 0), ("a", 1), ("a", 2)]),
        (["a:2,0", "a:2", "b"], [("a", 0), ("a", 2), ("b", 0)]),
        ([], []),
    ],
)
def test_scopes_are_sorted_and_each_partition_is_there_once(
    scopes: list[str], found: list[Partition]
) -> None:
    assert partitions.scoped(ADMIN, scopes, 5) == found


def test_without_scopes_all_partitions_are_meant() -> None:
    everything = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    assert partitions.scoped_or_all(ADMIN, None, 5) == everything
    assert partitions.scoped_or_all(ADMIN, [], 5) == everything
    assert partitions.scoped_or_all(ADMIN, ["b"], 5) == [("b", 0)]


def test_partitions_that_are_missing_are_named() -> None:
    with pytest.raises(CommandFailed, match="a has no partition 3, 5"):
        partitions.scoped(ADMIN, ["a:5,3,1"], 5)
    with pytest.raises(CommandFailed):
        partitions.scoped(ADMIN, ["c"], 5)


def test_a_time_after_all_records_is_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ("a", 0), ("a", 1)
    requested: list[list[Partition]] = []

    def list_offsets(
        _broker: object, _admin: object, spec: Any, places: list[Partition], *, committed: bool = False
    ) -> dict[Partition, tuple[int, int]]:
        requested.append(list(places))
        ends = type(spec) is type(OffsetSpec.latest())
        return {place: (9, -1) if ends else (0 if place == one else -1, 5) for place in places}

    monkeypatch.setattr(partitions, "list_offsets", list_offsets)
    assert partitions.at_time(ADMIN, ADMIN, [one, other], 7) == {one: 0, other: 9}
    assert requested == [[one, other], [other]]
    assert partitions.before_time(ADMIN, ADMIN, [one, other], 7) == {one: 0, other: 9}
