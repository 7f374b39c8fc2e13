"""The exit codes of all commands: docs/cli.md lists each, and a command line ends with it."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from kbroker.cli.docs import page
from kbroker.cli.exit_codes import ExitCode
from loadtest import exit_codes as loadtest
from spark_validation import options as judge
from tests.cli.conftest import Shell
from tuning import cli as tune

HOST = "--disk 100TB --nic 10Gbit/s --memory 64GiB --cores 8"
# Command lines of the programs with codes of their own; FOLDER is that of the test.
ENDS: dict[str, list[tuple[str, int]]] = {
    "tune": [
        (f"size --dir FOLDER --rate 1kB/s --retention 1h {HOST}", tune.DONE),
        (f"size --dir FOLDER --rate 100TB/s --retention 1h {HOST}", tune.SERIOUS),
        ("size --rate much", tune.WRONG_USE),
        ("size --no-such-option", tune.WRONG_USE),
        ("check --metrics 127.0.0.1:1", tune.NO_BROKER),
        (f"size --dir FOLDER --rate 1kB/s --retention 1h {HOST} --html /no-such-folder/x", tune.FAILED),
        (f"size --dir FOLDER --rate 1kB/s --retention 1h {HOST} --html /dev/full", tune.FAILED),
    ],
    "loadtest": [
        ("plan", loadtest.CLEAN),
        ("plan --seconds soon", loadtest.WRONG_USE),
        ("plan --seconds nan", loadtest.WRONG_USE),
        ("run --judge --no-history", loadtest.WRONG_USE),
        ("run --no-such-option", loadtest.WRONG_USE),
        ("replay", loadtest.WRONG_USE),
        ("run --folder /dev", loadtest.WRONG_USE),
        ("run --folder /proc/run", loadtest.FAILED),
        ("overhead --target 127.0.0.1:1", loadtest.NO_BROKER),
        ("overhead --target nowhere", loadtest.WRONG_USE),
    ],
    "judge": [
        ("--history FOLDER/no-such-run", judge.CANNOT_JUDGE),
        ("--history FOLDER --max-ack-ms soon", judge.CANNOT_JUDGE),
        ("", judge.CANNOT_JUDGE),
    ],
}
CODES: dict[str, Mapping[int, str]] = {
    "tune": tune.EXIT_CODES,
    "loadtest": loadtest.EXIT_CODES,
    "judge": judge.EXIT_CODES,
}
# Codes that need a whole run; tests of other modules end with them.
ELSEWHERE = {
    "tune": {128 + signal.SIGINT},  # tests/tuning/verify
    "loadtest": {
        loadtest.CONVICTED,
        loadtest.CANNOT_JUDGE,
        loadtest.INTERRUPTED,
    },  # below, and test_live_judge
    "judge": {loadtest.CLEAN, loadtest.CONVICTED, judge.INTERRUPTED},  # tests/spark_validation
}


@pytest.mark.parametrize(
    ("program", "line", "code"),
    [(program, line, code) for program in ("tune", "loadtest") for line, code in ENDS[program]],
    ids=str,
)
def test_a_program_ends_with_a_code_of_its_own(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, line: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)  # no host.json of the user who runs the tests
    done = shell(program, *line.replace("FOLDER", str(tmp_path)).split(), code=code)
    assert "Traceback" not in done.stderr
    if code and code != tune.SERIOUS:
        assert done.stderr.splitlines()[-1].startswith("kbroker"), done.stderr


@pytest.mark.spark
@pytest.mark.parametrize(("line", "code"), ENDS["judge"])
def test_the_judge_ends_with_a_code_of_its_own(tmp_path: Path, line: str, code: int) -> None:
    words = ["judge", *line.replace("FOLDER", str(tmp_path)).split()]
    command = [sys.executable, "-m", "kbroker.cli.app", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    (reason,) = done.stderr.splitlines()
    assert reason.startswith(("kbroker judge: ", "cannot judge: "))


def test_every_code_is_on_the_page_and_some_command_line_ends_with_it() -> None:
    text = page()
    for program, codes in CODES.items():
        assert {code for _, code in ENDS[program]} | ELSEWHERE[program] == set(codes)
        rows = re.findall(rf"^\| `{program}` \| (\d+) \|", text, re.MULTILINE)
        assert [int(code) for code in rows] == list(codes)
    assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == [str(int(code)) for code in ExitCode]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_load_test_that_is_stopped_is_no_conviction(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "run"
    words = ["run", "--seconds", "60", "--folder", str(folder)]
    started = subprocess.Popen(
        [sys.executable, "-m", "loadtest", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (folder / "run.json").exists():
        assert started.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    started.send_signal(number)
    output, _ = started.communicate(timeout=120)
    assert started.returncode == loadtest.INTERRUPTED, output
    assert "Traceback" not in output
