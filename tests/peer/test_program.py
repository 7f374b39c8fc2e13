"""Programs beside a test end with it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peer.program import STALLED, program, run_script

FOREVER = [sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(3600)"]
STEP = re.compile(rb"^@@ \d+$", re.MULTILINE)


def fail_beside(started: list["subprocess.Popen[bytes]"]) -> None:
    with program(FOREVER, stdout=subprocess.PIPE) as process:
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        raise ZeroDivisionError


def test_a_program_ends_with_a_test_that_fails() -> None:
    started: list[subprocess.Popen[bytes]] = []
    with pytest.raises(ZeroDivisionError):
        fail_beside(started)
    assert started[0].returncode == -9


def test_a_program_that_has_ended_keeps_its_code() -> None:
    with program([sys.executable, "-c", "raise SystemExit(7)"]) as process:
        process.wait(60)
    assert process.returncode == 7


def test_a_script_whose_steps_are_quick_runs_to_its_end(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = ["bash", "-c", "for one in 1 2 3; do echo @@ $one; sleep 0.1; done; exit 3"]
    assert run_script(command, output, STEP, 60) == 3
    assert output.read_text() == "@@ 1\n@@ 2\n@@ 3\n"


def test_a_script_that_stays_in_a_step_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert run_script(["bash", "-c", "echo @@ 1; exec sleep 3600"], output, STEP, 2, cwd=tmp_path) == STALLED
    assert output.read_text() == "@@ 1\n"
