"""The command line of the load test: what is wrong is one line, before anything is started."""

import pytest
from typer.testing import CliRunner, Result

from loadtest.cli import DEFAULT, app, first_line
from loadtest.faults.schedule import KINDS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("plan", "--seconds", "inf"), "--seconds inf: allowed is more than 0"),
        (("plan", "--seconds", "nan"), "--seconds nan"),
        (("plan", "--faults", "quake"), "no fault quake; there are: all, none, kill"),
        (("run", "--rate", "inf"), "--rate inf"),
        (("overhead", "--seconds", "-1"), "--seconds -1"),
        (("overhead", "--record-bytes", "big"), "two with a dash"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_64(arguments: tuple[str, ...], text: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 64
    (line,) = done.stderr.splitlines()
    assert line.startswith("kbroker loadtest: ")
    assert text in line


def test_a_measurement_has_a_pair_of_turns_at_least() -> None:
    assert run("overhead", "--pairs", "0").exit_code == 64


def test_the_help_lists_every_kind_of_fault() -> None:
    shown = "".join(run("run", "--help").stdout.replace("\u2502", " ").split())
    assert ",".join(KINDS) in shown


def test_a_plan_of_a_long_run_ends_before_it() -> None:
    lines = run("plan", "--seconds", "600").stdout.splitlines()
    assert len(lines) > 50
    assert float(lines[-1].split()[0]) < 600


def test_a_plan_without_faults_says_so() -> None:
    for options, reason in (
        (("--faults", "none"), "no faults in this time"),
        (("--faults", "kill", "--target", "h:1"), "faults that need access to its host are left out"),
    ):
        done = run("plan", *options)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (0, "", 1)
        assert reason in done.stderr


def test_a_run_with_one_fault_has_no_faults() -> None:
    assert first_line(DEFAULT, 1).startswith("seed 1: 1 fault in 60 s; settings: ")
    assert first_line(DEFAULT, 0).startswith("seed 1: 0 faults in 60 s; settings: ")
