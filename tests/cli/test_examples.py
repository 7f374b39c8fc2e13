"""Together the parts have every example of docs/cli.md and of --help; the tests run all but one."""

import re
from pathlib import Path

from tests.cli.example_needs import (
    AFTER,
    APART,
    ASK,
    BEFORE,
    NOT_RUN,
    PARTS,
    SAYS_OF_THE_HOST,
    STAYS,
    STDIN,
)
from tests.cli.example_runs import examples_by_command, examples_of, runs
from tests.docs.blocks import blocks, pages

NUMBER_NOT_RUN = 1
"""May only shrink."""


def test_examples_that_do_not_run_are_few_and_exist() -> None:
    every = [line for lines in examples_by_command().values() for line in lines]
    assert len(every) > 100
    for table in (NOT_RUN, BEFORE, STDIN, AFTER, SAYS_OF_THE_HOST, APART):
        assert not [key for key in table if not any(line.startswith(key) for line in every)]
    assert not {*STAYS, *ASK} - set(every)
    assert len([line for line in every if not runs(line)]) == NUMBER_NOT_RUN


def test_every_example_is_in_one_part() -> None:
    commands = [command for part in PARTS.values() for command in part]
    assert len(commands) == len(set(commands))
    assert not examples_by_command().keys() - set(commands)
    every = [line for lines in examples_by_command().values() for line in lines if runs(line)]
    assert sorted(line for part in PARTS for line in examples_of(part)) == sorted(every)


def test_a_page_leaves_to_these_tests_only_their_examples() -> None:
    loads = "tests/cli/test_examples_of_loads.py"
    left = [block for page in pages() for block in blocks(page) if block.argument == loads]
    assert left
    commands = [line.removeprefix(".venv/bin/") for block in left for line in block.lines]
    assert not set(commands) - set(examples_of("loads"))


def test_every_part_has_a_test_that_runs_it() -> None:
    modules = Path(__file__).parent.glob("test_examples_of_*.py")
    assert sorted(re.findall(r"run_examples\(\"(\w+)\"", "".join(map(Path.read_text, modules)))) == sorted(
        PARTS
    )
