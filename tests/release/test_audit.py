"""The audit of locked packages: a vulnerable one fails, a silent service is not taken for a good
one."""

import json
import subprocess
from typing import Any

import pytest

from release import audit
from release.audit import NOT_ASKED, SAFE, VULNERABLE, judged

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
    for error in (FileNotFoundError("uv"), subprocess.TimeoutExpired("uv", 300)):

        def run(*_: Any, **__: Any) -> None:
            raise error  # noqa: B023

        monkeypatch.setattr("subprocess.run", run)
        assert audit.main() == NOT_ASKED
    assert capsys.readouterr().out.count("audit: not asked: ") == 2
