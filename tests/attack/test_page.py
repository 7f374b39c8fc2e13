"""docs/attacks.md says of Apache Kafka only what a test asked it, its bounds are those of the
tests, and its commands run tests."""

import re
import subprocess
import sys

import pytest

from tests.attack.page import ROOT, Command, Row, rows, selects

ROWS = rows()
IDS = [row.attack[:40] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_cell_about_apache_kafka_was_compared_or_says_not_run(row: Row) -> None:
    if "compared" in row.kafka:
        texts = [(ROOT / path).read_text() for path in row.paths]
        assert any(
            re.search(r"^(@|pytestmark = \[?)pytest\.mark\.kafka\b", each, re.MULTILINE) for each in texts
        )
    else:
        assert row.kafka.startswith("not run")


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_times_of_a_row_are_bounds_of_its_tests(row: Row) -> None:
    texts = [(ROOT / path).read_text() for path in row.paths if path.endswith(".py")]
    bounds = {float(number) for text in texts for number in re.findall(r"_MS\b.* = ([\d.]+)", text)}
    stated = re.findall(r"(?:takes?|than) (\d+) ms of CPU", row.here)
    assert {float(number) for number in stated} <= bounds
    waits = re.findall(r"of the other answers come within ([\d.]+) s and all within ([\d.]+) s", row.here)
    for nearly_all, every in waits:
        assert any(f"WAIT_S = {float(nearly_all)}, {float(every)}" in text for text in texts)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_each_row_can_be_repeated(row: Row) -> None:
    targets = re.findall(r"`make ([\w-]+)", row.repeat)
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^(.* )?{target}( .*)?:", makefile, re.MULTILINE) for target in targets)
    assert row.commands or targets
    for path in row.paths:
        assert (ROOT / path).exists(), path


@pytest.mark.slow
def test_each_command_selects_tests() -> None:
    """pytest collects once, all that the page names."""
    paths = sorted({path for row in ROWS for path in row.paths})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *paths],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    nodes = [line for line in collected.stdout.splitlines() if "::" in line]
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]
    assert len(nodes) > len(ROWS)
    assert [command for row in ROWS for command in row.commands if not selects(command, nodes)] == []


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("", True),
        ("sweeps", True),
        ("Sweeps and not other", True),
        ("again or (other and long)", False),
        ("test_it", True),
        ("attack", False),
    ],
)
def test_an_expression_selects_as_that_of_pytest_does(expression: str, found: bool) -> None:
    node = "tests/attack/test_it.py::test_long_sweeps[one-two]"
    assert selects(Command(("tests/attack/test_it.py",), expression), [node]) is found
    assert not selects(Command(("tests/net",), expression), [node])
