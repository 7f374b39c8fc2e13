"""A mutant is tried in a copy: the tests there fail, time out or pass, and the project's files
stay."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants.ledger import SURVIVED, Ledger
from tests.mutants.module_mutants import mutants_of
from tests.mutants.mutant import Mutant
from tests.mutants.sample import drawn
from tests.mutants.tree_copy import TreeCopy

SOURCE = "def later(a, b):\n    return a > b\n"
MODULE = "kbroker/order.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "kbroker").mkdir(parents=True)
    (root / MODULE).write_text(SOURCE)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def mutant() -> Mutant:
    return next(each for each in mutants_of(MODULE, SOURCE) if each.after == "(a >= b)")


def test_the_copy_has_the_mutant_for_a_while_and_the_project_never(project: Path, tmp_path: Path) -> None:
    copy = TreeCopy(project, tmp_path / "copy")
    copy.refresh()
    changed = tmp_path / "copy" / MODULE
    with copy.mutated(mutant()):
        assert changed.read_text() == SOURCE.replace("a > b", "(a >= b)")
        assert (project / MODULE).read_text() == SOURCE
    assert changed.read_text() == SOURCE


def test_no_two_mutants_have_the_same_time_so_no_cached_module_is_taken_for_another(
    project: Path, tmp_path: Path
) -> None:
    copy = TreeCopy(project, tmp_path / "copy")
    copy.refresh()
    times = set()
    for _ in range(3):
        with copy.mutated(mutant()):
            times.add(int((tmp_path / "copy" / MODULE).stat().st_mtime))
    assert len(times) == 3


def test_a_refreshed_copy_follows_the_project(project: Path, tmp_path: Path) -> None:
    copy = TreeCopy(project, tmp_path / "copy")
    copy.refresh()
    (project / MODULE).unlink()
    (project / "kbroker" / "other.py").write_text("x = 1\n")
    copy.refresh()
    assert sorted(path.name for path in (tmp_path / "copy").rglob("*.py")) == ["other.py"]


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    found = mutants_of(MODULE, "def f(a, b):\n    return a < b and min(a, 1) == b + 2\n")
    assert drawn(found, 8, "1")[:3] == drawn(found, 3, "1")
    assert drawn(found, 8, "1") != drawn(found, 8, "2")


def test_the_ledger_keeps_one_row_for_each_mutant(tmp_path: Path) -> None:
    file = tmp_path / "results.csv"
    ledger = Ledger(file)
    ledger.add(mutant(), SURVIVED, "3 tests", "1")
    assert [each.key for each in Ledger(file).survivors()] == [mutant().key]
    ledger.add(mutant(), "killed", "tests/test_order.py::test_equal", "1")
    assert Ledger(file).knows(mutant())
    assert not Ledger(file).survivors()
