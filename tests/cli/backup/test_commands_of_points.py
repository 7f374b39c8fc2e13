"""The commands that list, verify, prune and restore the points of a folder of backups."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kbroker.cli.backup import commands
from kbroker.cli.backup.point import PartitionFiles, Point
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.backup.repository import Repository
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed

PLACE = "the backups"


class Case:
    """A folder with points of 1, 2 and 3 seconds: each has a segment, and all the same metadata.
    purposes: for which commands have opened it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.repository = Repository(folder)
        self.repository.lock()
        self.purposes: list[Purpose] = []
        monkeypatch.setattr("kbroker.cli.backup.place.at", self._at)

    def _at(self, place: str, purpose: Purpose) -> Repository:
        assert place == PLACE
        self.purposes.append(purpose)
        return self.repository

    def add(self, time_ms: int) -> Point:
        segment = self.repository.store_bytes(b"x" * time_ms)
        partition = PartitionFiles("orders", 0, "A" * 22, 0, 9, [segment])
        metadata = self.repository.store_bytes(b"metadata")
        made = Point(time_ms, "cluster", 1, "directory", metadata, [partition])
        self.repository.add(made)
        return made

    @property
    def times(self) -> list[int]:
        return [point.time_ms for point in self.repository.points()]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path / "backups", monkeypatch)


@pytest.fixture
def case(empty: Case) -> Case:
    for time_ms in (1000, 2000, 3000):
        empty.add(time_ms)
    return empty


def test_points_are_listed_with_the_bytes_of_their_segments(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.list_points(PLACE, json=True)
    shown = capsys.readouterr()
    rows = json.loads(shown.out)
    assert [row["bytes"] for row in rows] == [1000, 2000, 3000]
    assert {row["partitions"] for row in rows} == {1}
    assert rows[0]["time"].startswith("1970-01-01T00:00:01")
    assert shown.err == ""
    commands.list_points(PLACE)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == [
        *("BYTES", "1000", "2000", "3000")
    ]
    assert case.purposes == [Purpose.LIST] * 2


def test_a_place_without_points_is_said_to_have_none(empty: Case, capsys: pytest.CaptureFixture[str]) -> None:
    commands.list_points(PLACE, json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == []
    assert f"{PLACE}: no complete backup; `kbroker backup {PLACE}` takes or continues one" in shown.err
    for command in (
        lambda: commands.verify(PLACE),
        lambda: commands.prune(PLACE, 1, yes=True),
        lambda: commands.restore(PLACE, Path("to")),
    ):
        with pytest.raises(UsageFailed, match="no backup here; `kbroker backup"):
            command()
    assert empty.purposes == [Purpose.LIST, Purpose.READ, Purpose.PRUNE, Purpose.READ]


@pytest.mark.parametrize(
    ("keep", "left", "text"),
    [
        (1, [3000], "2 backups and 2 files removed, 1 backup left\n"),
        (2, [2000, 3000], "1 backup and 1 file removed, 2 backups left\n"),
        (3, [1000, 2000, 3000], "0 backups and 0 files removed, 3 backups left\n"),
        (9, [1000, 2000, 3000], "0 backups and 0 files removed, 3 backups left\n"),
    ],
)
def test_pruning_keeps_the_newest_points(
    case: Case, capsys: pytest.CaptureFixture[str], keep: int, left: list[int], text: str
) -> None:
    commands.prune(PLACE, keep, yes=True)
    assert (case.times, capsys.readouterr().err) == (left, text)
    assert case.purposes == [Purpose.PRUNE]


def test_pruning_without_a_yes_asks_for_one_and_locks_nothing_meanwhile(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(UsageFailed, match=r"^Remove 2 backups of 3 in the backups\? Give --yes"):
        commands.prune(PLACE, 1)
    assert (case.times, case.purposes) == ([1000, 2000, 3000], [Purpose.LIST])


def test_pruning_without_old_points_asks_nothing_and_keeps_them_all(
    case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    commands.prune(PLACE, 3)
    assert capsys.readouterr().err == "0 backups and 0 files removed, 3 backups left\n"
    assert (case.times, case.purposes) == ([1000, 2000, 3000], [Purpose.LIST, Purpose.PRUNE])


def test_pruning_removes_only_as_many_as_the_question_named(
    case: Case, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup may end while the question waits."""
    whole = commands._open

    def opened(place: str, purpose: Purpose) -> Any:
        repository, points = whole(place, purpose)
        return repository, points[:2] if purpose is Purpose.LIST else points

    monkeypatch.setattr(commands, "_open", opened)
    monkeypatch.setattr(commands, "confirm", lambda *_: None)
    commands.prune(PLACE, 1)
    assert case.times == [2000, 3000]
    assert capsys.readouterr().err == "1 backup and 1 file removed, 2 backups left\n"


def test_each_damaged_file_is_named_once(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    commands.verify(PLACE)
    assert capsys.readouterr().err == "intact: 3 backups\n"
    (point, *_) = case.repository.points()
    metadata = case.repository.path(point.metadata.sha256)
    metadata.unlink()
    with pytest.raises(CommandFailed, match=r"missing or damaged: 1 file; remove damaged ones") as failure:
        commands.verify(PLACE)
    assert failure.value.code == ExitCode.FAILED
    assert capsys.readouterr().err == f"{metadata}: No such file or directory\n"
    case.repository.path(point.partitions[0].segments[0].sha256).write_bytes(b"other")
    with pytest.raises(CommandFailed, match=r"missing or damaged: 2 files"):
        commands.verify(PLACE)
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert case.purposes == [Purpose.READ] * 3


@pytest.mark.parametrize(
    ("to", "time_ms"),
    [
        (None, 3000),
        ("1970-01-01T00:00:03Z", 3000),
        ("1970-01-01T00:00:02.999Z", 2000),
        ("1970-01-01T00:00:02Z", 2000),
        ("1000", 1000),
    ],
)
def test_the_last_point_at_or_before_a_time_is_restored(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    to: str | None,
    time_ms: int,
) -> None:
    restored: list[tuple[int, Path, list[str]]] = []

    def restore(_: Repository, point: Point, target: Path, topics: list[str], *__: Any) -> list[Any]:
        restored.append((point.time_ms, target, topics))
        return point.partitions

    monkeypatch.setattr("kbroker.cli.backup.restoring.restore", restore)
    commands.restore(PLACE, Path("to"), to, ["orders"])
    commands.restore(PLACE, Path("to"), to)
    assert restored == [(time_ms, Path("to"), ["orders"]), (time_ms, Path("to"), [])]
    assert capsys.readouterr().err.startswith("1 partition as of 1970-01-01T00:00:0")
    assert case.purposes == [Purpose.READ] * 2


def test_a_time_before_the_first_point_is_refused(case: Case) -> None:
    with pytest.raises(UsageFailed, match=r"no backup in the backups at or before 999: the first is of 1970"):
        commands.restore(PLACE, Path("to"), "999")
