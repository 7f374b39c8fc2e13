"""The audit of locked packages: a vulnerable one fails, a silent service is not taken for a good
one."""

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from release import audit
from release.audit import NOT_ASKED, SAFE, SERVICES, VULNERABLE, holders, judged, locks

GOOD = {"name": "numpy", "version": "2.1", "vulns": []}
BAD = {"name": "lz4", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "own", "skip_reason": "could not be found on PyPI"}


def of(*packages: dict[str, Any]) -> tuple[int, list[str]]:
    return judged(json.dumps({"dependencies": packages, "fixes": []}), "")


def test_packages_without_vulnerabilities_are_counted() -> None:
    assert of(GOOD, GOOD) == (SAFE, ["audit: no known vulnerability in 2 packages"])


def test_a_vulnerable_package_is_named_with_its_fix() -> None:
    code, lines = of(GOOD, BAD, SKIPPED)
    assert (code, lines[0]) == (VULNERABLE, "audit: lz4 1.0: PYSEC-1, fixed in 1.1")
    assert of({**BAD, "vulns": [{"id": "X"}]})[1] == ["audit: lz4 1.0: X, fixed in no version yet"]


@pytest.mark.parametrize("output", ["", "{}", "[]", "not JSON", '{"dependencies": null}'])
def test_no_answer_is_no_good_news(output: str) -> None:
    code, lines = judged(output, "first\nConnectionError: no route\n\n")
    assert (code, lines) == (NOT_ASKED, ["audit: not asked: ConnectionError: no route"])


def test_packages_that_were_not_looked_up_are_no_good_news() -> None:
    assert of(GOOD, SKIPPED) == (NOT_ASKED, ["audit: not asked: own: could not be found on PyPI"])
    assert of(SKIPPED, SKIPPED)[1] == ["audit: not asked: none of 2 packages is known to the service"]
    assert of()[0] == NOT_ASKED


def test_a_missing_program_and_one_that_hangs_are_no_good_news(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (FileNotFoundError("python"), subprocess.TimeoutExpired("python", 140)):

        def run(*_: Any, **__: Any) -> None:
            raise error  # noqa: B023

        monkeypatch.setattr("subprocess.run", run)
        assert audit.main() == NOT_ASKED
        assert capsys.readouterr().out.count("audit: not asked: ") == len(SERVICES)


@pytest.mark.parametrize(
    ("answers", "code", "services"),
    [
        ([GOOD], SAFE, ["pypi"]),
        ([BAD], VULNERABLE, ["pypi"]),
        ([None, GOOD], SAFE, ["pypi", "osv"]),
        ([SKIPPED, BAD], VULNERABLE, ["pypi", "osv"]),
        ([None, None], NOT_ASKED, ["pypi", "osv"]),
    ],
)
def test_osv_is_asked_about_all_lock_files_if_pypi_gives_no_answer(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], code: int, services: list[str]
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        answer = answers[len(commands) - 1]
        text = "" if answer is None else json.dumps({"dependencies": [answer]})
        return SimpleNamespace(stdout=text, stderr="ConnectionError")

    monkeypatch.setattr("subprocess.run", run)
    assert audit.main() == code
    assert [command[command.index("--vulnerability-service") + 1] for command in commands] == services
    for command in commands:
        given = [command[at + 1] for at, word in enumerate(command) if word == "--requirement"]
        assert [Path(each) for each in given] == locks()


def test_a_vulnerable_package_is_named_with_its_lock_files() -> None:
    held = {("lz4", "1.0"): ["dev.txt", "run.txt"]}
    _, lines = judged(json.dumps({"dependencies": [BAD]}), "", held)
    assert lines == ["audit: lz4 1.0 of dev.txt, run.txt: PYSEC-1, fixed in 1.1"]


def test_all_packages_are_locked_with_hashes_also_the_audit_itself() -> None:
    held = holders()
    assert {name for files in held.values() for name in files} == {lock.name for lock in locks()}
    assert ["audit.txt"] in [files for (name, _), files in held.items() if name == "pip-audit"]
    for lock in locks():
        for package in re.split(r"\n(?=\S)", lock.read_text().strip()):
            assert re.fullmatch(r"[\w.-]+==\S+( ; [^\n]*)?( \\\n +--hash=sha256:[0-9a-f]{64})+", package)
