"""Runs tests in the copy, one after the other, until one fails."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.session import REPORT, SECONDS

FAST = "not (slow or compat or kafka or crash or fuzz or spark)"
TEST_SECONDS = 60
"""A test that takes longer has noticed the mutant."""
MEMORY = 12 << 30
"""Address space: a mutant that never ends shall not take the machine with it."""
BUSY = 5
"""How many seconds a busy machine may take for one of CPU."""
NO_TESTS = 5


@dataclass
class Trial:
    """failed: the first test that did. tests: how many ran. seconds: of CPU."""

    failed: str
    timed_out: bool
    tests: int
    seconds: float = 0.0


def tried(folder: Path, files: Sequence[str], seconds: float, deselected: Sequence[str] = ()) -> Trial:
    """Run the fast tests of the files for so many seconds of CPU. folder: the copy."""
    report, scratch = folder.parent / "report.json", folder.parent / "scratch"
    report.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "tests.mutants.session",
        "-p",
        "no:cacheprovider",
    ]
    command += ["--timeout", str(TEST_SECONDS), "-m", FAST, f"--basetemp={scratch}"]
    command += [f"--deselect={name}" for name in deselected]
    environment = os.environ | {
        "KBROKER_NO_KERNELS": "1",
        "PYTHONPATH": str(folder),
        REPORT: str(report),
        SECONDS: str(seconds),
    }
    process = subprocess.Popen(
        [*command, *files],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_bound,
    )
    try:
        process.wait(BUSY * seconds + 2 * TEST_SECONDS)
    except subprocess.TimeoutExpired:
        return Trial("the whole run", True, 0)
    finally:
        _end(process)
        shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode == NO_TESTS:
        return Trial("", False, 0)
    if not report.exists():
        return Trial(f"the run itself (exit code {process.returncode})", False, 0)
    found = json.loads(report.read_text())
    if process.returncode not in (0, 1, 2) and not found["failed"]:
        return Trial(f"the run itself (exit code {process.returncode})", False, found["tests"])
    return Trial(found["failed"], found["timed_out"], found["tests"], found["cpu"])


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end(process: subprocess.Popen[bytes]) -> None:
    """The run and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
