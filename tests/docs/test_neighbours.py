"""Each recipe of docs/neighbours.md has a test that writes its row in docs/compatibility.md, and
each row its recipe."""

import re

from docs.generated import ROOT
from tests.compat.neighbours.page import NEIGHBOURS, PAGE, rows

RECIPES = ROOT / "docs" / "neighbours.md"
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
NO_RECIPE = "Without a test here"


def recipes() -> list[str]:
    """The names in headings, without the language in parentheses."""
    headings = [one for one in HEADING.findall(RECIPES.read_text()) if one != NO_RECIPE]
    return [name for one in headings for name in re.sub(r" \(.*\)$", "", one).split(", ")]


def test_each_recipe_has_a_test_and_a_row_that_passed() -> None:
    found = rows(PAGE)
    assert sorted(recipes()) == sorted(NEIGHBOURS)
    assert list(found) == list(NEIGHBOURS)
    assert [name for name, row in found.items() if row.split(" | ")[3] != "passed"] == []


def test_the_tests_of_each_row_exist() -> None:
    files = {tests.partition(" -k ")[0] for _, tests in NEIGHBOURS.values()}
    assert [file for file in files if not (ROOT / file).is_file()] == []
