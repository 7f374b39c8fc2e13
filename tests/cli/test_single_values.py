"""An option with one value is given once; an option that takes several says so."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from kbroker.cli.commands import application
from kbroker.cli.exit_codes import ExitCode
from loadtest.cli import app as loadtest
from loadtest.exit_codes import WRONG_USE
from tests.cli.conftest import Shell
from tuning.cli import app as tuning

TWICE = [
    (
        "topics list -b 127.0.0.1:1 --bootstrap 127.0.0.1:2",
        "--bootstrap is given twice: give it once, with commas",
    ),
    ("topics create t -p 1 --partitions 1", "--partitions is given twice: give it once; see"),
    ("topics list --timeout 1 --timeout 2 --timeout=3", "--timeout is given 3 times: give it once"),
    ("consume t -g a -g b", "--group is given twice"),
    ("consume t --from-beginning -o 1 -o 2", "--offset is given twice"),
    ("produce t --idempotence --no-idempotence", "--idempotence is given twice"),
    ("configs describe topic t --command-config a --command-config b", "--command-config is given twice"),
    ("groups describe g --watch 1 --watch 2", "--watch is given twice"),
    ("share-groups reset-offsets g --to-datetime 1d --to-datetime 2d", "--to-datetime is given twice"),
    ("backups prune / --keep 1 --keep 2", "--keep is given twice"),
    ("restore / / --to 1d --to 2d", "--to is given twice"),
    ("status --url http://127.0.0.1:1/ --url http://127.0.0.1:2/", "--url is given twice"),
    ("tune size --rate 1kB/s --rate 2kB/s", "--rate is given twice"),
]


@pytest.mark.parametrize(("line", "part"), TWICE)
def test_a_second_value_is_refused(shell: Shell, line: str, part: str) -> None:
    (reason,) = shell(*line.split(), code=ExitCode.USAGE).stderr.splitlines()
    assert reason.startswith("kbroker")
    assert part in reason
    assert "--help`" in reason


def test_the_load_test_refuses_it_with_its_own_code(shell: Shell) -> None:
    done = shell("loadtest", "plan", "--seconds", "1", "--seconds", "2", code=WRONG_USE)
    assert "--seconds is given twice" in done.stderr


def test_a_flag_may_be_repeated(shell: Shell) -> None:
    line = ("topics", "list", "--json", "--json", "-b", "127.0.0.1:1")
    assert "cannot connect" in shell(*line, code=ExitCode.UNREACHABLE).stderr


def options(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for one in command.params:
        if one.param_type_name == "option":
            yield f"{path} {one.opts[0]}", one
    for name, each in getattr(command, "commands", {}).items():
        yield from options(each, f"{path} {name}")


@pytest.mark.parametrize("program", [application(), tuning, loadtest], ids=["kbroker", "tune", "loadtest"])
def test_every_option_that_takes_several_values_says_so(program: typer.Typer) -> None:
    several = {path: one for path, one in options(typer.main.get_command(program), "") if one.multiple}
    assert [path for path, one in several.items() if "repeatable" not in (one.help or "")] == []
