"""Runs the judge as a separate process: live during the load, and after it."""

import os
import subprocess
import webbrowser
from pathlib import Path

from loadtest.conductor import say
from loadtest.exit_codes import CANNOT_JUDGE, CLEAN, CONVICTED
from loadtest.interpreter import RUN_MODULE

WORDS = {CLEAN: "clean", CONVICTED: "CONVICTED", CANNOT_JUDGE: "could not judge"}
PATIENCE_S = 1200.0  # maximum wait for the live judge after the load, because it has rows to catch up with


def command(kind: str, folder: Path, bootstrap: str, data_dir: Path | None, report: Path) -> list[str]:
    """kind: judge | stream. data_dir: the log directory, when it is on this machine."""
    words = [
        *RUN_MODULE,
        "spark_validation",
        kind,
        "--history",
        str(folder),
        "--report",
        str(report),
    ]
    words += ["--bootstrap", bootstrap]
    return words + (["--segments", str(data_dir)] if data_dir is not None else [])


class LiveJudge:
    """`spark_validation stream` while the load runs; it ends after the run has. Owner: the command
    line."""

    def __init__(self, folder: Path, bootstrap: str, data_dir: Path | None) -> None:
        self.report = folder / "live.html"
        self._log = folder / "live.log"
        words = ["nice", *command("stream", folder, bootstrap, data_dir, self.report)]
        say(f"live judge: {' '.join(words[2:])}; its page: {self.report}")
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def verdict(self) -> int:
        """Wait for its end; returns the exit code. After PATIENCE_S it is stopped, without a
        verdict."""
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.abandon()
            code = CANNOT_JUDGE
        if code == CONVICTED and not self.report.exists():
            code = CANNOT_JUDGE
        say(f"live verdict: {WORDS.get(code, f'the live judge failed ({code})')}; see {self._log}")
        return code if code in WORDS else CANNOT_JUDGE

    def abandon(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


def verdict(folder: Path, bootstrap: str, data_dir: Path | None) -> int:
    """The judge's exit code; opens the report where there is a display."""
    report = folder / "verdict.html"
    words = command("judge", folder, bootstrap, data_dir, report)
    say(f"judge: {' '.join(words[1:])}")
    code = subprocess.run(words, check=False).returncode
    if code == CONVICTED and not report.exists():
        code = CANNOT_JUDGE  # Python's own exit code for a crash, not a verdict
    say(f"verdict: {WORDS.get(code, f'the judge failed ({code})')}; report: {report}")
    if report.exists() and _has_display():
        webbrowser.open(report.as_uri())
    return code if code in WORDS else CANNOT_JUDGE


def together(live: int, whole: int) -> int:
    """One exit code of both judges: a violation found by one counts, and a missing verdict is not a
    clean run."""
    return CONVICTED if CONVICTED in (live, whole) else max(live, whole)


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
