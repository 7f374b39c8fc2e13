"""Damaged or contradictory files are no evidence: exit code 2, without Spark."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from loadtest import history
from spark_validation import cli
from spark_validation.options import CANNOT_JUDGE
from spark_validation.soundness import require_once, require_whole
from tests.spark_validation.world import clean
from tests.spark_validation.world_files import write

TOPIC = "calm"


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted((folder / "run").glob(pattern))))


def other_mode(folder: Path) -> None:
    run = folder / "run" / "run.json"
    topics = [topic | {"mode": "transactional"} for topic in json.loads(run.read_text())["topics"]]
    change(run, topics=topics)


def fewer_partitions(folder: Path) -> None:
    run = folder / "run" / "run.json"
    topics = [topic | {"partitions": 1} for topic in json.loads(run.read_text())["topics"]]
    change(run, topics=topics)


def drop_a_column(folder: Path) -> None:
    path = one(folder, "sends/*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["offset"]), path)


DAMAGED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a history is cut off": (lambda f: truncate(one(f, "reads/*.parquet")), "is no whole Parquet file"),
    "a history is empty": (lambda f: one(f, "sends/*.parquet").write_bytes(b""), "is no whole Parquet file"),
    "a column is gone": (drop_a_column, "lacks the columns offset"),
    "a client's file is cut off": (lambda f: truncate(one(f, "clients/c*.json")), "clients cannot be read"),
    "run.json is cut off": (lambda f: truncate(f / "run" / "run.json"), "run.json"),
    "the run ended before it began": (lambda f: change(f / "run" / "run.json", ended_ns=1), "ended before"),
    "no topic": (lambda f: change(f / "run" / "run.json", topics=[]), "names no topic"),
    "two clients of one number": (
        lambda f: shutil.copy(one(f, "clients/c*.json"), f / "run" / "clients" / "c000099.json"),
        "two files are of consumer 10",
    ),
    "two producers of one number": (
        lambda f: shutil.copy(one(f, "clients/p*.json"), f / "run" / "clients" / "p000099.json"),
        "two files are of producer 10",
    ),
    "a history twice": (
        lambda f: shutil.copy(one(f, "reads/*.parquet"), f / "run" / "reads" / "c000010-0001.parquet"),
        "is a copy of",
    ),
    "another topic's clients": (
        lambda f: change(one(f, "clients/p*.json"), topic="another"),
        "does not name the clients' topics another",
    ),
    "another mode": (other_mode, "is idempotent"),
    "more partitions than the topic has": (fewer_partitions, "1 partitions"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_run_that_is_damaged_or_contradicts_itself_cannot_be_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write(tmp_path, [clean(TOPIC, 1)])
    damage, reason = DAMAGED[name]
    damage(tmp_path)
    code = cli.main(["judge", "--history", str(tmp_path / "run"), "--segments", str(tmp_path / "data")])
    assert code == CANNOT_JUDGE
    assert reason in capsys.readouterr().err


def test_files_without_rows_are_no_copies_of_each_other(tmp_path: Path) -> None:
    """A client that rolls its files by the clock may have had nothing to write."""
    write(tmp_path, [clean(TOPIC, 1)])
    folder = tmp_path / "run" / "reads"
    nothing = history.READS.empty_table()
    for number in (7, 8):
        pq.write_table(nothing, folder / f"c000010-{number:04d}.parquet")
    require_whole(tmp_path / "run")
    require_once(tmp_path / "run")


def test_a_judge_that_fails_does_not_convict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_options: object) -> int:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(cli, "run_judge", fail)
    assert cli.main(["judge", "--history", str(tmp_path)]) == CANNOT_JUDGE
