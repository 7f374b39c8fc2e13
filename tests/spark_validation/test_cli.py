"""The command line: its exit codes, and what it prints for someone who sees it for the first
time."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation import cli
from spark_validation.options import CANNOT_JUDGE, CLEAN, CONVICTED
from spark_validation.verdict import Verdict
from tests.spark_validation.mutations import overwrite_a_value
from tests.spark_validation.world import clean
from tests.spark_validation.world_files import write

LOST = {"anomaly": "V01", "kind": "gone", "convicts": True, "topic": "t", "partition": 3, "offset": 9}


def judged(folder: Path) -> int:
    return cli.main(["judge", "--history", str(folder / "run"), "--segments", str(folder / "data")])


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_clean_run_exits_with_0_and_a_convicted_one_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "clean", [clean("calm", 1)])
    assert judged(tmp_path / "clean") == CLEAN == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("CLEAN: no anomaly; ")
    topic = clean("calm", 1)
    overwrite_a_value(topic)
    write(tmp_path / "altered", [topic])
    assert judged(tmp_path / "altered") == CONVICTED == 1
    out = capsys.readouterr().out
    assert "    altered value: calm-0 offset 7, producer 11 seq 2" in out
    assert out.endswith("\nCONVICTED of V02 misplaced\n")


@pytest.mark.parametrize("kind", [PermissionError, IsADirectoryError, NotADirectoryError, FileNotFoundError])
def test_a_file_that_cannot_be_read_is_named_in_one_line(
    kind: type[OSError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_options: object) -> int:
        raise kind(13, "not for you", "/run/run.json")

    monkeypatch.setattr(cli, "run_judge", fails)
    assert judged(Path("/")) == CANNOT_JUDGE
    assert capsys.readouterr().err == "cannot judge: /run/run.json: not for you\n"


def test_a_conviction_lists_its_first_records_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict()
    verdict.missing.append("a file is gone")
    verdict.add([LOST | {"offset": offset, "consumer": 5, "detail": "as it was"} for offset in range(9)])
    cli.say(verdict)
    lines = capsys.readouterr().out.splitlines()
    assert "    gone: t-3 offset 0, consumer 5 (as it was)" in lines
    assert "    and 6 more: see the report" in lines
    assert lines[-2:] == ["also missing, so more may be wrong: a file is gone", "CONVICTED of V01 lost"]


def test_a_finding_without_a_place_is_printed_with_its_detail() -> None:
    row = {"kind": "p99", "topic": None, "partition": None, "offset": None, "detail": "x" * 300}
    assert cli.described(row) == f"p99 ({'x' * cli.DETAIL}...)"
