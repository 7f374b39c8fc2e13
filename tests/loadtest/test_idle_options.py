"""An option of the load test that would have no effect is refused by name, before anything is
started."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from loadtest.cli import app
from loadtest.exit_codes import WRONG_USE
from loadtest.idle_options import LoadCommand
from loadtest.single_values import name_of


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        (
            "run --target 127.0.0.1:1 --broker kafka",
            "--target does not allow --broker: it would have no effect",
        ),
        (
            "run --keep-data --target 127.0.0.1:1",
            "--target does not allow --keep-data: it would have no effect",
        ),
        (
            "run --target h:1 --broker kafka --keep-data",
            "--target does not allow --broker and --keep-data: they",
        ),
        ("plan --target 127.0.0.1:1 --broker kafka", "--target does not allow --broker"),
    ],
)
def test_an_option_of_a_broker_to_start_is_refused_for_a_running_one(line: str, refused: str) -> None:
    done = CliRunner().invoke(app, line.split(), prog_name="kbroker loadtest", env={"COLUMNS": "200"})
    assert done.exit_code == WRONG_USE
    assert refused in done.stderr
    assert not done.stdout


@pytest.mark.parametrize("command", ["run", "overhead"])
def test_settings_of_clients_need_a_running_broker(command: str) -> None:
    words = [command, "--command-config", "client.properties"]
    done = CliRunner().invoke(app, words, prog_name="kbroker loadtest", env={"COLUMNS": "200"})
    assert done.exit_code == WRONG_USE
    assert "--command-config needs --target: it would have no effect" in done.stderr


@pytest.mark.parametrize("line", ["plan --target 127.0.0.1:1", "plan --broker kafka"])
def test_one_of_both_is_allowed(line: str) -> None:
    assert CliRunner().invoke(app, line.split(), prog_name="kbroker loadtest").exit_code == 0


def test_every_option_of_the_table_exists() -> None:
    root: Any = typer.main.get_command(app)
    for path, rows in LoadCommand.idle_beside.items():
        command = root.commands[path.removeprefix("loadtest ")]
        known = {name_of(each) for each in command.params if each.param_type_name == "option"}
        assert {*rows, *(other for others in rows.values() for other in others)} <= known
    for path, needs in LoadCommand.idle_without.items():
        command = root.commands[path.removeprefix("loadtest ")]
        known = {name_of(each) for each in command.params if each.param_type_name == "option"}
        assert {*needs, *needs.values()} <= known
