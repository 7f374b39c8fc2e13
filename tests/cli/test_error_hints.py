"""An error of the broker ends with the next step, in the same line."""

import shlex

import pytest
import typer.main

from kbroker.cli.commands import application
from kbroker.cli.error_hints import _HINTS, with_hint
from kbroker.cli.failures import broker_error
from kbroker.cli.pages import pages
from kbroker.protocol.errors import ErrorCode


def test_an_error_is_followed_by_the_next_step() -> None:
    message = broker_error(ErrorCode.NON_EMPTY_GROUP.value, "The group is not empty.", "group g").message
    assert message == "group g: NON_EMPTY_GROUP: The group is not empty; stop its members first"
    assert with_hint("It is so.", ErrorCode.INVALID_REQUEST) == "It is so."


@pytest.mark.parametrize("hint", sorted(set(_HINTS.values())))
def test_a_command_of_a_hint_exists(hint: str) -> None:
    assert "\n" not in hint
    for command in hint.split("`")[1::2]:
        program, group, name, *options = [*shlex.split(command), ""]
        assert program == "kbroker"
        here = typer.main.get_command(application()).commands[group]  # type: ignore[attr-defined]
        if group == "docs":
            assert name in pages()
        elif name:
            here = here.commands[name]
        known = {option for each in here.params for option in each.opts}
        assert {option for option in options if option} <= known
