"""The backup command finds its point in time at once, and copies with low priority."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.backup import commands
from kbroker.cli.backup.commands import backup
from kbroker.cli.backup.cut import Cut
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.failures import CommandFailed


def test_the_point_in_time_is_found_before_the_priority_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for its turn sees a transaction end at each of its attempts."""
    steps: list[str] = []

    def step(name: str, result: object = None) -> Any:
        def taken(*_: object, **__: object) -> object:
            steps.append(name)
            return result

        return taken

    def take(*_: object) -> None:
        steps.append("copy")
        raise CommandFailed("far enough")

    monkeypatch.setattr("kbroker.cli.backup.place.at", step("open"))
    monkeypatch.setattr("kbroker.cli.backup.cut.take_cut", step("cut", Cut(0, {}, {}, "")))
    folders = SimpleNamespace(log_dirs=[], leaders={})
    monkeypatch.setattr("kbroker.cli.backup.folders.folders_of", step("folders", folders))
    monkeypatch.setattr("kbroker.cli.backup.taking.take", take)
    monkeypatch.setattr("os.nice", step("lower the priority"))
    arguments: dict[str, Any] = {"dest": "backups", "link": False, "json": True}
    with pytest.raises(CommandFailed, match="far enough"):
        backup(bootstrap="127.0.0.1:1", command_config=None, timeout_s=1.0, **arguments)
    assert steps == ["open", "cut", "folders", "lower the priority", "copy"]


class Backup:
    """A backup of the partitions a-0 and b-0, of which the copying leaves b-0 out. events: its
    steps after the copying."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.events: list[object] = []
        segment = SegmentFile(0, 5, "0" * 64)
        partition = PartitionFiles("a", 0, "A" * 22, 0, 9, [segment])
        self.point = Point(1000, "c", 1, "d", segment, [partition])
        self.returns("place.at", SimpleNamespace(add=self._add))
        self.returns("cut.take_cut", Cut(0, {}, {("a", 0): 9, ("b", 0): 3}, ""))
        self.returns("folders.folders_of", SimpleNamespace(log_dirs=[], leaders={}))
        self.returns("taking.take", self.point)
        monkeypatch.setattr("os.nice", lambda _: None)
        monkeypatch.setattr(commands, "_refuse_moved", lambda *given: self.events.append(given[-1]))

    def returns(self, name: str, value: object) -> None:
        self.monkeypatch.setattr(f"kbroker.cli.backup.{name}", lambda *_, **__: value)

    def _add(self, point: Point) -> str:
        self.events.append(point)
        return "/the/manifest"

    def run(self, json: bool = False) -> None:
        arguments: dict[str, Any] = {"dest": "backups", "link": False, "json": json}
        backup(bootstrap="127.0.0.1:1", command_config=None, timeout_s=1.0, **arguments)


def test_a_point_is_added_after_the_check_of_the_partitions_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Backup(monkeypatch)
    case.run()
    assert case.events == [{("b", 0)}, case.point]
    shown = capsys.readouterr().err
    assert shown.startswith("1 partition, 5 bytes as of 1970-01-01T00:00:01")
    assert shown.endswith(" are in /the/manifest\n")
    case.run(json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["partitions"], found["bytes"], found["manifest"]) == (1, 5, "/the/manifest")


def test_files_of_another_user_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Backup(monkeypatch)

    def refuse(*_: object) -> Point:
        raise PermissionError(13, "Permission denied", "/data/a-0")

    monkeypatch.setattr("kbroker.cli.backup.taking.take", refuse)
    with pytest.raises(CommandFailed, match="/data/a-0: Permission denied: run the backup as the broker's"):
        case.run()
    assert case.events == []
