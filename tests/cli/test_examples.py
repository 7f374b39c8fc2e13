"""Together the parts have every example of docs/cli.md and of --help, and few do not run."""

import re
from pathlib import Path

from tests.cli.example_runs import (
    AFTER,
    ASK,
    BEFORE,
    NOT_RUN,
    PARTS,
    SAYS_OF_THE_HOST,
    STAYS,
    STDIN,
    examples_by_command,
    runs,
)

MAX_NOT_RUN = 21


def test_examples_that_do_not_run_are_few_and_exist() -> None:
    every = [line for lines in examples_by_command().values() for line in lines]
    assert len(every) > 100
    for table in (NOT_RUN, BEFORE, STDIN, AFTER, SAYS_OF_THE_HOST):
        assert not [key for key in table if not any(line.startswith(key) for line in every)]
    assert not {*STAYS, *ASK} - set(every)
    assert len([line for line in every if not runs(line)]) <= MAX_NOT_RUN


def test_every_command_with_examples_is_in_one_part() -> None:
    commands = [command for part in PARTS.values() for command in part]
    assert len(commands) == len(set(commands))
    assert not examples_by_command().keys() - set(commands)


def test_every_part_has_a_test_that_runs_it() -> None:
    modules = Path(__file__).parent.glob("test_examples_of_*.py")
    assert sorted(re.findall(r"run_examples\(\"(\w+)\"", "".join(map(Path.read_text, modules)))) == sorted(
        PARTS
    )
