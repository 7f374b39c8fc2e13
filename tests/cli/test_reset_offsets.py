"""Every strategy moves the committed offsets it should, only with --execute, and never under a live
member."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import reset_offsets
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, Unreachable
from tests.cli.conftest import Shell, Target
from tests.cli.member import member

HOUR_MS = 3_600_000
BASE_MS = 1_700_000_000_000


@pytest.fixture
def read(cli: Shell, topic: str, group: str) -> str:
    """A group that committed 4 of 10 hourly records of partition 0 and 1 of 2 of partition 1."""
    cli("topics", "alter", topic, "-c", "retention.ms=-1")  # its records are years old
    for partition, count in ((0, 10), (1, 2)):
        times = (BASE_MS + n * HOUR_MS for n in range(count))
        documents = "".join(json.dumps({"value": "x", "timestamp": ms}) + "\n" for ms in times)
        cli("produce", topic, "-p", partition, "--json", "-q", stdin=documents.encode())
    cli("groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", 4, "--execute")
    cli("groups", "reset-offsets", group, "--topic", f"{topic}:1", "--to-offset", 1, "--execute")
    return group


def committed(cli: Shell, group: str) -> dict[int, int]:
    """Offsets by partition; one without a commit is described, too, and left out here."""
    (found,) = cli("groups", "describe", group, "--no-lag-seconds", "--json").json
    offsets = {row["partition"]: row["current_offset"] for row in found["partitions"]}
    return {partition: offset for partition, offset in offsets.items() if offset is not None}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 10, 1: 2}),
        (("--to-current",), {0: 4, 1: 1}),
        (("--to-offset", "3"), {0: 3, 1: 2}),
        (("--shift-by", "2"), {0: 6, 1: 2}),
        (("--shift-by", "-3"), {0: 1, 1: 0}),
        (("--to-datetime", str(BASE_MS + HOUR_MS // 2)), {0: 1, 1: 1}),
        (("--to-datetime", "2023-11-15T00:13:20+01:00"), {0: 1, 1: 1}),
        (("--by-duration", "PT1H"), {0: 10, 1: 2}),
        (("--by-duration", "9999d"), {0: 0, 1: 0}),
    ],
)
def test_each_strategy_goes_where_it_says(
    cli: Shell, read: str, strategy: tuple[str, ...], expected: dict[int, int]
) -> None:
    planned = cli("groups", "reset-offsets", read, "--all-topics", *strategy, "--json")
    assert {row["partition"]: row["new_offset"] for row in planned.json} == expected
    assert {row["partition"]: row["current_offset"] for row in planned.json} == {0: 4, 1: 1}
    assert "nothing was changed" in planned.stderr
    assert committed(cli, read) == {0: 4, 1: 1}
    cli("groups", "reset-offsets", read, "--all-topics", *strategy, "--execute")
    assert committed(cli, read) == expected


def test_a_group_that_is_refused_hides_no_other(
    cli: Shell, topic: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = reset_offsets._commit

    def refused(broker: Any, admin: Any, group: str, moves: Any) -> Any:
        if group != read:
            raise CommandFailed(f"group {group}: NON_EMPTY_GROUP")
        return commit(broker, admin, group, moves)

    monkeypatch.setattr(reset_offsets, "_commit", refused)
    reset = ("groups", "reset-offsets", f"{read}-b", read, "--topic", f"{topic}:0", "--execute")
    done = cli(*reset, "--to-offset", 7, code=1)
    assert [line.split() for line in done.lines[1:]] == [[read, topic, "0", "4", "7"]]
    assert done.stderr == f"kbroker: group {read}-b: NON_EMPTY_GROUP\n"
    assert committed(cli, read) == {0: 7, 1: 1}


def test_a_partition_that_is_refused_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = [reset_offsets.Move("g", ("t", number), None, 7) for number in range(3)]
    error = SimpleNamespace(str=lambda: "Topic authorization failed")
    answered = [SimpleNamespace(topic="t", partition=n, error=error if n else None) for n in range(3)]
    monkeypatch.setattr(reset_offsets, "result_of", lambda *_: SimpleNamespace(topic_partitions=answered))
    admin: Any = SimpleNamespace(alter_consumer_group_offsets=lambda *_, **__: {"g": None})
    failures = reset_offsets._commit_each(Connection("", {}, 1), admin, ["g"], moves)
    assert {move.partition: failure.message for move, failure in failures.items()} == {
        ("t", 1): "t-1: Topic authorization failed",
        ("t", 2): "t-2: Topic authorization failed",
    }


def test_groups_without_an_answer_wait_together(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def send(requests: Any, **_: object) -> dict[str, str]:
        events.append(f"send {requests[0].group_id}")
        return {requests[0].group_id: requests[0].group_id}

    def wait(answer: str, subject: str) -> Any:
        events.append(f"wait {answer}")
        raise Unreachable(subject)

    monkeypatch.setattr(reset_offsets, "result_of", wait)
    moves = [reset_offsets.Move(group, ("t", 0), None, 7) for group in ("a", "b")]
    admin: Any = SimpleNamespace(alter_consumer_group_offsets=send)
    failures = reset_offsets._commit_each(Connection("", {}, 1), admin, ["a", "b", "c"], moves)
    assert events == ["send a", "send b", "wait a", "wait b"]
    assert {move.group: failure.message for move, failure in failures.items()} == {
        "a": "group a", "b": "group b",
    }  # fmt: skip


def test_targets_outside_the_log_take_its_nearest_end_and_say_so(cli: Shell, topic: str, read: str) -> None:
    done = cli("groups", "reset-offsets", read, "--topic", f"{topic}:1", "--to-offset", 99, "--execute")
    assert f"{topic}-1: 99 is outside the log, taking 2" in done.stderr
    assert committed(cli, read) == {0: 4, 1: 2}


def test_an_export_brings_a_group_back(cli: Shell, topic: str, read: str, tmp_path: Path) -> None:
    saved = cli("groups", "reset-offsets", read, "--all-topics", "--to-current", "--export").text
    assert sorted(saved.splitlines()) == [f"{topic},0,4", f"{topic},1,1"]
    file = tmp_path / "saved.csv"
    file.write_text(saved)
    cli("groups", "reset-offsets", read, "--all-topics", "--to-latest", "--execute")
    cli("groups", "reset-offsets", read, "--from-file", file, "--execute")
    assert committed(cli, read) == {0: 4, 1: 1}
    both = cli(
        "groups", "reset-offsets", read, f"{read}-b", "--topic", topic, "--to-latest", "--export"
    ).lines
    assert f"{read}-b,{topic},2,0" in both
    file.write_text(f"{read}-b,{topic},2,0\n")
    missing = cli("groups", "reset-offsets", read, "--from-file", file, "--execute", code=1).stderr
    assert f"has no offsets of group {read}" in missing
    file.write_text(f"{topic},zero,1\n")
    assert (
        "expected topic,partition,offset"
        in cli("groups", "reset-offsets", read, "--from-file", file, code=2).stderr
    )


def test_a_group_with_members_is_refused(cli: Shell, topic: str, group: str, target: Target) -> None:
    with member(target, topic, group):
        refused = cli(
            "groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute", code=1
        )
    assert "is Stable with 1 member: stop its consumers first" in refused.stderr


def test_scopes_and_strategies_that_contradict_are_usage_errors(cli: Shell, topic: str, group: str) -> None:
    reset = ("groups", "reset-offsets", group)
    assert "exactly one of" in cli(*reset, "--topic", topic, code=2).stderr
    assert "exactly one of" in cli(*reset, "--topic", topic, "--to-latest", "--to-earliest", code=2).stderr
    assert "either --topic or --all-topics" in cli(*reset, "--to-latest", code=2).stderr
    assert "only one of --dry-run" in cli(*reset, "--dry-run", "--execute", "--to-latest", code=2).stderr
    assert "GROUP_ID_NOT_FOUND" in cli(*reset, "--all-topics", "--to-latest", code=1).stderr
    assert "no committed offset to shift" in cli(*reset, "--topic", topic, "--shift-by", 1, code=1).stderr
    assert "has no partition 8" in cli(*reset, "--topic", f"{topic}:8", "--to-latest", code=1).stderr
