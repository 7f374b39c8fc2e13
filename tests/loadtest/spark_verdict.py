"""The verdict of the Spark judge on a run, as its command gives it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from loadtest.exit_codes import CLEAN
from tests.peer.kbroker_node import ROOT

LIMIT_S = 600


def clean_verdict(folder: Path, *where: str) -> dict[str, Any]:
    """The figures of a verdict, which must be clean. where: the options that name the log."""
    report = folder / "verdict.html"
    words = ["judge", "--history", str(folder), "--report", str(report), *where]
    command = [sys.executable, "-m", "spark_validation", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == CLEAN, done.stdout[-5000:] + done.stderr[-3000:]
    figures: dict[str, Any] = json.loads(report.with_suffix(".json").read_text())
    return figures
