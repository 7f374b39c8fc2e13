"""Each report is read once while it does not change, and one request reads so much."""

import json
import os
from pathlib import Path

import pytest

from kbroker.http.console import report_list
from kbroker.http.console.report_files import ReportFolder
from kbroker.http.console.report_list import ReportList


class Counting(ReportFolder):
    """Notes what is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.seen: list[str] = []

    def read(self, name: str):  # type: ignore[no-untyped-def]
        self.seen.append(name)
        return super().read(name)


def verdict(path: Path, exit_code: int, at_s: int = 1000) -> None:
    path.write_text(json.dumps({"results": {}, "exit_code": exit_code, "run": 7}))
    os.utime(path, (at_s, at_s))


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    verdict(tmp_path / "a.json", 0)
    (tmp_path / "other.json").write_text('{"password": "x"}')
    folder = Counting(tmp_path)
    reports = ReportList(folder)
    for _ in range(3):
        assert [(file.name, made.verdict) for file, made in reports.listed().found] == [("a.json", "clean")]
    assert sorted(folder.seen) == ["a.json", "other.json"]
    verdict(tmp_path / "a.json", 1, at_s=2000)
    assert [made.verdict for _, made in reports.listed().found] == ["convicted"]
    (tmp_path / "a.json").unlink()
    assert reports.listed().found == ()


def test_reports_that_one_request_leaves_out_are_read_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        verdict(tmp_path / f"{number}.json", 0, at_s=number)
    size = (tmp_path / "0.json").stat().st_size
    monkeypatch.setattr(report_list, "MAX_READ", size)
    reports = ReportList(ReportFolder(str(tmp_path)))
    found = [reports.listed() for _ in range(3)]
    assert [(len(each.found), each.left_out) for each in found] == [(1, 2), (2, 1), (3, 0)]
    assert found[0].found[0][0].name == "2.json"


def test_files_beyond_the_bounds_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        verdict(tmp_path / f"{number}.json", 0, at_s=number)
    monkeypatch.setattr(report_list, "MAX_FILES", 3)
    monkeypatch.setattr(report_list, "MAX_BYTES", 1)
    assert ReportList(ReportFolder(str(tmp_path))).listed().left_out == 4


def test_a_folder_that_cannot_be_read_is_a_problem_in_one_line(tmp_path: Path) -> None:
    listed = ReportList(ReportFolder(str(tmp_path / "none"))).listed()
    assert (listed.found, listed.problem) == ((), "No such file or directory")
