"""The live judge beside a load with faults, as a user starts it: it ends after the run and agrees
with the judge."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.exit_codes import CANNOT_JUDGE, CLEAN, CONVICTED
from loadtest.judging import together

ROOT = Path(__file__).parents[2]


@pytest.mark.spark
@pytest.mark.timeout(800)
def test_live_and_final_judgement_agree_on_a_run_with_faults(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="`make venv-spark` brings it")
    folder = tmp_path / "run"
    words = ["--seconds", "12", "--rate", "1000", "--faults", "kill,reset", "--live", "--judge"]
    command = [sys.executable, "-m", "loadtest", "run", "--folder", str(folder), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=780)
    live = (folder / "live.log").read_text() if (folder / "live.log").exists() else ""
    assert done.returncode == CLEAN, done.stdout[-3000:] + done.stderr[-3000:] + live[:3000]
    assert "live verdict: clean" in done.stdout
    assert "] verdict: clean" in done.stdout
    seen = live.splitlines()[-1]
    whole = json.loads((folder / "verdict.json").read_text())["records"]
    assert f"{whole['reads']:,} reads" in seen  # nothing was left out
    assert f"{whole['log']:,} log" in seen


@pytest.mark.parametrize("live", [CLEAN, CONVICTED, CANNOT_JUDGE])
@pytest.mark.parametrize("whole", [CLEAN, CONVICTED, CANNOT_JUDGE])
def test_one_violation_counts_and_a_missing_verdict_is_not_clean(live: int, whole: int) -> None:
    codes = {live, whole}
    expected = CONVICTED if CONVICTED in codes else CANNOT_JUDGE if CANNOT_JUDGE in codes else CLEAN
    assert together(live, whole) == expected
