"""--help breaks lines at the terminal's width, not where the source does."""

from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from loadtest.flowing import flow, flowed


def test_each_paragraph_becomes_one_line() -> None:
    assert flowed("One\ntwo.\n\nThree\nfour.") == "One two.\n\nThree four."


def test_help_of_nested_commands_flows() -> None:
    app, group = typer.Typer(), typer.Typer()

    @app.callback()
    def about() -> None:
        """All."""

    @group.callback()
    def parts() -> None:
        """Parts."""

    @group.command()
    def part() -> None:
        """A part.

        It is said over
        two lines."""

    app.add_typer(group, name="parts")
    flow(app)
    reported = CliRunner().invoke(app, ["parts", "part", "--help"]).stdout
    assert "It is said over two lines." in reported


@pytest.mark.parametrize("program", ["tuning.cli", "loadtest.cli"])
def test_the_list_of_a_programs_commands_flows(program: str) -> None:
    app = import_module(program).app
    for command in app.registered_commands:
        assert "\n" not in (command.help or "\n").partition("\n\n")[0]
