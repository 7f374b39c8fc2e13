"""Runs of pytest in a copy: the first failure, its time, and how many tests ran."""

from pathlib import Path

import pytest

from tests.mutants.trial import tried

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # each starts an interpreter
CASES = """
def test_one_passes(): pass
def test_two_fails(): assert 1 > 2
def test_three_is_not_reached(): assert False
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As much of a copy as the runs need."""
    folder = tmp_path / "tree"
    (folder / "tests").mkdir(parents=True)
    (folder / "tests" / "mutants").symlink_to(ROOT / "tests" / "mutants")
    (folder / "tests" / "__init__.py").touch()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow\naddopts = --import-mode=importlib\n")
    (folder / "tests" / "test_cases.py").write_text(CASES)
    return folder


def test_the_first_failure_ends_the_run(folder: Path) -> None:
    trial = tried(folder, ["tests/test_cases.py"], 60)
    assert (trial.failed, trial.timed_out, trial.tests) == ("tests/test_cases.py::test_two_fails", False, 2)


def test_a_run_whose_time_is_over_ends_without_a_failure(folder: Path) -> None:
    trial = tried(folder, ["tests/test_cases.py"], 0)
    assert (trial.failed, trial.tests) == ("", 1)


def test_a_module_that_cannot_be_imported_is_noticed(folder: Path) -> None:
    (folder / "tests" / "test_cases.py").write_text("import kbroker.no_such_module\n")
    assert tried(folder, ["tests/test_cases.py"], 60).failed == "tests/test_cases.py"
