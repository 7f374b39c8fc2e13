"""The folder of reports: what is listed, and what is never read."""

import os
from pathlib import Path

import pytest

from kbroker.http.console import report_files
from kbroker.http.console.report_files import MAX_BYTES, MAX_DEPTH, NoReport, ReportFolder
from tests.descriptors import open_files


def write(path: Path, text: str = "{}", at_s: int = 1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at_s, at_s))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "reports"
    found.mkdir()
    return found


def names(folder: Path) -> list[str]:
    return [file.name for file in ReportFolder(str(folder)).listed()[0]]


def test_files_are_listed_newest_first_as_deep_as_runs_are(folder: Path) -> None:
    write(folder / "old.json", at_s=10)
    write(folder / "load" / "run-1" / "verdict.json", at_s=30)
    write(folder / "load" / "run-1" / "verdict.html", at_s=30)
    write(folder / "bench.json", at_s=20)
    write(folder / "a" / "b" / "c" / "d" / "too-deep.json")
    write(folder / ".hidden.json")
    write(folder / ".cache" / "x.json")
    assert names(folder) == ["load/run-1/verdict.json", "bench.json", "old.json"]
    assert MAX_DEPTH == 3


def test_the_histories_of_a_run_are_not_read(folder: Path) -> None:
    write(folder / "run" / "run.json")
    write(folder / "run" / "figures.json", at_s=2000)
    write(folder / "run" / "clients" / "p1.json")
    assert names(folder) == ["run/figures.json", "run/run.json"]


def test_names_that_are_no_text_are_left_out(folder: Path) -> None:
    (folder / "line\nbreak.json").write_text("{}")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text("{}")
    assert names(folder) == []


def test_the_walk_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        write(folder / f"{number % 4}" / f"{number}.json")
    assert ReportFolder(str(folder)).listed()[1] is False
    monkeypatch.setattr(report_files, "MAX_ENTRIES", 10)
    found, more = ReportFolder(str(folder)).listed()
    assert len(found) < 10
    assert more


def test_links_are_neither_listed_nor_followed(folder: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "outside" / "secret.json", '{"secret": 1}')
    (folder / "link.json").symlink_to(secret)
    (folder / "away").symlink_to(secret.parent)
    inside = write(folder / "real.json")
    (folder / "same.json").symlink_to(inside)
    found = ReportFolder(str(folder))
    assert names(folder) == ["real.json"]
    for name in ("link.json", "away/secret.json", "same.json"):
        with pytest.raises(NoReport):
            found.read(name)


@pytest.mark.parametrize(
    "name",
    ["../outside/secret.json", "run/../../outside/secret.json", "/etc/passwd.json", "", "/", "run//x.json", "./x.json",
     "run/./x.json", ".x.json", "x\x00.json", "x.txt", "a/b/c/d/e.json", "none.json", "folder.json", "\udcff.json"],
)  # fmt: skip
def test_nothing_outside_is_read(folder: Path, tmp_path: Path, name: str) -> None:
    write(tmp_path / "outside" / "secret.json", '{"secret": 1}')
    for inside in ("x.json", "x.txt", ".x.json", "run/x.json", "a/b/c/d/e.json"):
        write(folder / inside)
    (folder / "folder.json").mkdir()
    with pytest.raises(NoReport):
        ReportFolder(str(folder)).read(name)


def test_only_regular_files_of_a_bounded_size_are_read(folder: Path) -> None:
    found = ReportFolder(str(folder))
    os.mkfifo(folder / "pipe.json")
    with open(folder / "large.json", "wb") as file:
        file.truncate(MAX_BYTES + 1)
    for name in ("pipe.json", "large.json"):
        with pytest.raises(NoReport):
            found.read(name)
    assert names(folder) == ["large.json"]
    write(folder / "run" / "x.json", "[1]")
    report, data = found.read("run/x.json")
    assert (report.name, report.size, report.written_ms, data) == ("run/x.json", 3, 1_000_000, b"[1]")


def test_the_folder_itself_may_be_a_link_and_must_be_there(folder: Path, tmp_path: Path) -> None:
    write(folder / "x.json")
    (tmp_path / "link").symlink_to(folder)
    assert names(tmp_path / "link") == ["x.json"]
    assert ReportFolder(str(tmp_path / "link")).read("x.json")[1] == b"{}"
    with pytest.raises(FileNotFoundError):
        names(tmp_path / "none")
    with pytest.raises(NoReport):
        ReportFolder(str(tmp_path / "none")).read("x.json")


def test_nothing_stays_open_after_listing_and_reading(folder: Path) -> None:
    write(folder / "a" / "x.json")
    os.mkfifo(folder / "a" / "pipe.json")
    before = open_files()
    for _ in range(5):
        names(folder)
        ReportFolder(str(folder)).read("a/x.json")
        for name in ("a/none.json", "none/x.json", "a/pipe.json"):
            with pytest.raises(NoReport):
                ReportFolder(str(folder)).read(name)
    assert open_files() == before
