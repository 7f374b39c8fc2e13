"""A second value of an option is refused also by the programs that run without kbroker's own."""

import subprocess
import sys

import pytest

from loadtest.exit_codes import WRONG_USE
from tuning.cli import WRONG_USE as WRONG_USE_OF_TUNE


@pytest.mark.parametrize(
    ("line", "code", "option"),
    [
        ("loadtest plan --seconds 10 --seconds 20", WRONG_USE, "--seconds"),
        ("loadtest run --history --no-history", WRONG_USE, "--history"),
        ("tuning size --rate 1kB/s --rate 2kB/s", WRONG_USE_OF_TUNE, "--rate"),
    ],
)
def test_a_second_value_is_refused_by_the_module(line: str, code: int, option: str) -> None:
    words = [sys.executable, "-m", *line.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stderr
    assert f"{option} is given twice: give it once" in " ".join(done.stderr.replace("\u2502", " ").split())
    assert not done.stdout
