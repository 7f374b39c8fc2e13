"""A whole load test of a broker of its own, with faults, as a user starts it; and its histories
hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.faults.schedule import LATE_ROLES
from loadtest.history import KINDS
from loadtest.run import load_run
from tests.loadtest.plain_judge import judge, rows

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]


def loadtest(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "loadtest", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)


def test_load_with_kills_and_resets_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ["--seconds", "14", "--rate", "2000", "--faults", "kill,reset", "--seed", "5", "--workers", "2"]
    done = loadtest("run", "--folder", str(folder), *options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    empty = {kind for kind in KINDS if not len(next(iter(rows(folder, kind).values())))}
    assert empty == {"shares"}, "no share group is part of this run"
    assert not any(judge(folder).values()), judge(folder)
    run = load_run(folder)
    assert run.drained
    assert len(rows(folder, "sends")["seq"]) > 4000, "of 28,000 on a quiet machine"
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    assert faults
    started = [fault for fault in faults if fault["target"] not in LATE_ROLES]
    assert {fault["outcome"] for fault in started} == {"done"}
    assert {fault["outcome"] for fault in faults} <= {"done", "skipped"}
    assert (folder / "locust.html").exists()
    requests = (folder / "locust_stats.csv").read_text()
    assert "idempotent" in requests


def test_wrong_use_is_reported_in_one_sentence(tmp_path: Path) -> None:
    for words, text in (
        (["--shape", "zigzag"], "steady | ramp"),
        (["--faults", "earthquake"], "no fault earthquake"),
        (["--target", "127.0.0.1:1"], "no broker at 127.0.0.1:1: Connection refused"),
        (["--target", ""], "--target is empty; is a shell variable not set?"),
    ):
        done = loadtest("run", "--folder", str(tmp_path / "none"), *words)
        assert done.returncode in (64, 69)
        assert text in done.stderr
        assert "Traceback" not in done.stderr
