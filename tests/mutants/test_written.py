"""Mutants that were written by hand: where they are, and what is left out."""

import ast
import csv
from pathlib import Path

import pytest

from tests.mutants.ledger import REASONS, RESULTS
from tests.mutants.module_mutants import mutants_of
from tests.mutants.written import FIELDS, WRITTEN, written

ROOT = Path(__file__).parents[2]
MODULE = "kbroker/io/example.py"
SOURCE = '''"""É."""

LIMIT = 3


class Log:
    def append(self, batch):
        self.check(batch)
        self.sync()
        return batch


def later(a, b):
    return a > b
'''


def listed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    path = tmp_path / "written.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows((MODULE, *change) for change in changes)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / MODULE).parent.mkdir(parents=True)
    (tmp_path / MODULE).write_text(SOURCE)
    return tmp_path


def test_a_change_of_several_lines_is_applied_where_its_text_is(root: Path) -> None:
    path = listed(root, ("        self.check(batch)\n        self.sync()\n", "        self.sync()\n"))
    (mutant,), gone = written(root, [MODULE], path)
    changed = mutant.applied(SOURCE)
    assert changed == SOURCE.replace("        self.check(batch)\n", "")
    ast.parse(changed)
    assert (mutant.function, mutant.line, gone) == ("Log.append", 8, [])
    assert mutant.key[3:5] == ("self.check(batch) self.sync()", "self.sync()")


def test_a_mutant_belongs_to_the_function_around_its_first_word(root: Path) -> None:
    path = listed(
        root, ("\n\ndef later(a", "\n\ndef later(b"), ("LIMIT = 3", "LIMIT = 4"), ("a > b", "a < b")
    )
    found, _ = written(root, [MODULE], path)
    assert [each.function for each in found] == ["later", "", "later"]


def test_text_that_the_module_does_not_have_once_is_left_out_and_named(root: Path) -> None:
    path = listed(root, ("batch", "b"), ("self.flush()", "pass"))
    assert written(root, [MODULE], path) == ([], [f"{MODULE}: batch", f"{MODULE}: self.flush()"])


def test_only_the_chosen_modules_are_looked_at(root: Path) -> None:
    path = listed(root, ("LIMIT = 3", "LIMIT = 4"))
    assert written(root, ["kbroker/io/other.py"], path) == ([], [])


def test_a_key_tells_them_from_those_of_operators(root: Path) -> None:
    path = listed(root, ("a > b", "(a >= b)"))
    (mutant,), _ = written(root, [MODULE], path)
    assert mutant.key not in {each.key for each in mutants_of(MODULE, SOURCE)}


def test_each_row_names_present_code() -> None:
    """A row whose code has changed since is never tried again."""
    with open(WRITTEN, newline="") as file:
        rows = list(csv.DictReader(file))
    sources = {name: (ROOT / name).read_text() for name in {row["module"] for row in rows}}
    counts = [(row["module"], row["before"], sources[row["module"]].count(row["before"])) for row in rows]
    assert [each for each in counts if each[2] != 1] == []


@pytest.mark.parametrize("path", [RESULTS, REASONS])
def test_each_result_is_of_a_present_module(path: Path) -> None:
    """The results of a module that has another name now would be tried again as new ones."""
    with open(path, newline="") as file:
        named = {row["module"] for row in csv.DictReader(file)}
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
