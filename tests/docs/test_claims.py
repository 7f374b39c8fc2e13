"""The results in README's table of claims are those of the pages that they link."""

import re

import pytest

from docs.generated import ROOT

ROW = re.compile(r"^\| (.+) \| \[(.+)\]\((docs/\S+?\.md)[^)]*\) \|$")
NUMBER = re.compile(r"\d[\d,]*")


def results() -> dict[str, tuple[str, str]]:
    """Text and page of the result of each claim."""
    section = (ROOT / "README.md").read_text().partition("## Claims")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    matches = [(row, ROW.match(row)) for row in rows]
    assert [row for row, match in matches if not match] == []
    return {match[1].partition(" | ")[0]: (match[2], match[3]) for _, match in matches if match}


def test_claims_are_found() -> None:
    assert len(results()) > 5


@pytest.mark.parametrize("claim", results())
def test_the_numbers_of_a_result_are_in_one_place_of_its_page(claim: str) -> None:
    text, name = results()[claim]
    numbers = NUMBER.findall(text)
    parts = re.split(r"\n(?=\n|\| )", (ROOT / name).read_text())
    assert any(
        all(re.search(rf"(?<![\d,]){number}(?![\d,]*\d)", part) for number in numbers) for part in parts
    )
