"""--help of every command: names, units, examples, and the same spellings everywhere."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from kbroker.cli.commands import application
from loadtest.cli import app as loadtest
from tuning.cli import app as tuning

PROGRAMS = {"kbroker": application(), "kbroker tune": tuning, "kbroker loadtest": loadtest}
PLAIN_NUMBERS = ("--skew", "--abort-share", "--cores")
"""An exponent, a share, a count: numbers without a unit."""
DELETE = ("abort", "delete", "expire", "prune", "remove")
"""First words of commands that delete something."""


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command of a program that has options of its own."""
    inner = getattr(command, "commands", {})
    if not inner and not command.context_settings.get("ignore_unknown_options"):  # else another program's
        yield path, command
    for name, each in inner.items():
        yield from commands(f"{path} {name}", each)


ALL = dict(pair for name, app in PROGRAMS.items() for pair in commands(name, typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL)
def test_every_option_has_a_meaning_and_a_number_its_unit(path: str) -> None:
    options = [one for one in ALL[path].params if one.param_type_name == "option"]
    assert [one.opts for one in options if not one.help] == []
    floats = [one for one in options if one.type.name.startswith("float")]
    without = [one.opts[0] for one in floats if not one.metavar]
    assert [name for name in without if name not in PLAIN_NUMBERS] == []


@pytest.mark.parametrize("path", ALL)
def test_arguments_have_the_same_names_in_the_help_as_on_the_page(path: str) -> None:
    name = max((name for name in PROGRAMS if path.startswith(name)), key=len)
    asked = CliRunner(env={"COLUMNS": "200"}).invoke(
        PROGRAMS[name], [*path.removeprefix(name).split(), "--help"]
    )
    (line,) = [line.strip() for line in asked.output.splitlines() if line.strip().startswith("Usage: ")]
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    usages = [shown.strip() for shown in page.splitlines() if shown.startswith(f"    {path} [OPTIONS]")]
    assert len(usages) == 1
    assert usages[0].endswith(line.partition(" [OPTIONS]")[2])
    assert "{" not in line


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_examples_with_options_that_exist(path: str) -> None:
    lines = [line.strip() for line in (ALL[path].epilog or "").splitlines()[1:]]
    own = [line for line in lines if line.startswith(path)]
    assert own
    name = max((name for name in PROGRAMS if path.startswith(name)), key=len)
    for line in own:
        words = shlex.split(line.replace("\\[", "["), comments=True)
        until = next((n for n, word in enumerate(words) if word in ("|", "||", ">", "<", "&&")), len(words))
        done = CliRunner().invoke(PROGRAMS[name], [*words[len(name.split()) : until], "--help"])
        assert done.exit_code == 0, (line, done.output)


@pytest.mark.parametrize("path", [path for path in ALL if path.split()[-1].split("-")[0] in DELETE])
def test_a_command_that_deletes_something_asks_unless_yes_is_given(path: str) -> None:
    assert [one for one in ALL[path].params if "--yes" in one.opts]


SPELLINGS = {"--yes": "-y", "--bootstrap": "-b", "--quiet": "-q", "--partitions": "-p", "--config": "-c"}
"""Options with a short form: a command has both or none."""
OTHERS = {"kbroker cluster log-dirs": "--partitions", "kbroker move": "--quiet", "kbroker import": "--quiet"}
"""A flag, and the former name of --idle-timeout."""


@pytest.mark.parametrize(
    "path", [path for path in ALL if not path.startswith(("kbroker tune", "kbroker loadtest"))]
)
def test_the_same_option_has_the_same_short_form_everywhere(path: str) -> None:
    own = [one.opts for one in ALL[path].params if one.opts[0] in SPELLINGS]
    assert [opts for opts in own if SPELLINGS[opts[0]] not in opts and opts[0] != OTHERS.get(path)] == []


def test_every_confirmation_has_the_same_short_form() -> None:
    asking = [one.opts for command in ALL.values() for one in command.params if "--yes" in one.opts]
    assert len(asking) > 10
    assert [opts for opts in asking if opts != ["--yes", "-y"]] == []


FORMER = {
    "kbroker move": ("--quiet", "--idle-timeout"),
    "kbroker import": ("--quiet", "--idle-timeout"),
    "kbroker transactions list": ("--pattern", "pattern"),
    "kbroker tune bench": ("--most-bytes", "--max-bytes"),
}
"""Names that are accepted, and not shown."""


@pytest.mark.parametrize("path", FORMER)
def test_a_former_name_is_accepted_and_hidden(path: str) -> None:
    former, new = FORMER[path]
    known = {name: one for one in ALL[path].params for name in one.opts}
    assert known[former].hidden
    assert not getattr(known[new], "hidden", False)
    name = max((name for name in PROGRAMS if path.startswith(name)), key=len)
    shown = CliRunner().invoke(PROGRAMS[name], [*path.removeprefix(name).split(), "--help"]).output
    assert former not in shown
