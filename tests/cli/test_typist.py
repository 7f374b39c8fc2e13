"""Answers on a terminal for the examples that ask."""

import sys

from tests.cli.typist import KILLED, main

ASKS = f"""{sys.executable} -c '
import getpass, sys
first, second = getpass.getpass("one: "), getpass.getpass("again: ")
sys.exit(7 if (first, second) == ("a", "b") and sys.stdin.isatty() else 1)'"""


def test_each_prompt_gets_its_answer_and_the_command_ends_with_its_own_code() -> None:
    assert main(ASKS, ["a", "b"]) == 7


def test_a_command_that_waits_for_more_is_killed() -> None:
    assert main(ASKS, ["a"], end_s=2) == KILLED
