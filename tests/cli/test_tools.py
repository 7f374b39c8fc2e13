"""Tuner, load test and judge are commands of the same program; what they lack is a sentence."""

import subprocess
import sys

import pytest

from kbroker.cli import load_settings, tools
from kbroker.cli.app import run
from kbroker.cli.exit_codes import ExitCode
from loadtest import client_settings


def test_arguments_and_exit_code_are_those_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "check", "--no-such-option"]) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("kbroker: No such option: --no-such-option")
    assert run(["tune", "chek"]) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "kbroker: No such command 'chek'. Did you mean 'check'?; see `kbroker tune --help`"
    assert run(["tune", "size", "--rate", "much"]) == ExitCode.USAGE
    for arguments in (["tune", "--help"], ["tune", "-h"], ["tune", "check", "-h"], ["loadtest", "run", "-h"]):
        assert run(arguments) == ExitCode.OK
        assert f"kbroker {arguments[0]}" in capsys.readouterr().out


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(name: str) -> None:
        raise ModuleNotFoundError("No module named 'locust'", name="locust")

    monkeypatch.setattr(tools, "import_module", gone)
    assert run(["loadtest", "run"]) == ExitCode.USAGE
    assert (
        capsys.readouterr().err == "kbroker: locust is not installed; try: pip install 'kbroker[loadtest]'\n"
    )


def test_a_missing_package_of_the_tuner_is_no_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(name: str) -> None:
        raise ModuleNotFoundError("No module named 'psutil'", name="psutil")

    monkeypatch.setattr(tools, "import_module", gone)
    assert run(["tune", "check"]) == ExitCode.USAGE
    line = "kbroker: psutil is not installed; install kbroker again, with its dependencies\n"
    assert capsys.readouterr().err == line


def test_the_load_test_starts_without_the_tests_of_the_source_tree() -> None:
    code = "import sys; sys.modules['tests'] = None; import loadtest.cli"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_judge_can_read_a_file_of_client_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    class Judge:
        """Records the readers that it is given."""

        @staticmethod
        def main(arguments: list[str]) -> int:
            given.append((arguments, list(client_settings.readers)))
            return 0

    given: list[tuple[list[str], list[object]]] = []
    monkeypatch.setattr(client_settings, "readers", [])
    monkeypatch.setattr(sys, "argv", ["kbroker"])
    monkeypatch.setattr(tools, "import_module", lambda name: Judge)
    assert run(["judge", "--history", "run"]) == ExitCode.OK
    assert given == [(["judge", "--history", "run"], [load_settings.read])]
