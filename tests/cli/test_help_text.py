"""--help breaks lines at the terminal's width, not where the source does."""

import typer
from typer.testing import CliRunner

from kbroker.cli.help_text import flow, flowed


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
