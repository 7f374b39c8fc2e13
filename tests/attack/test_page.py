"""docs/attacks.md says of Apache Kafka only what a test asked it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "attacks.md").read_text().splitlines()
    if line.startswith("| ")
][1:]


def files() -> list[str]:
    """The test of each row; "the same" is that of the row above."""
    found: list[str] = []
    for row in ROWS:
        named = re.search(r"tests/attack/\w+\.py", row[4])
        found.append(named[0] if named else found[-1] if row[4].startswith("the same") else "")
    return found


@pytest.mark.parametrize(
    ("row", "file"), list(zip(ROWS, files(), strict=True)), ids=[row[0][:40] for row in ROWS]
)
def test_a_cell_about_apache_kafka_was_compared_or_says_not_run(row: list[str], file: str) -> None:
    cell = row[3]
    assert len(row) == 5
    if "compared" in cell:
        assert "@pytest.mark.kafka" in (ROOT / file).read_text()
    else:
        assert cell.startswith("not run")
