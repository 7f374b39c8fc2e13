"""Commands that a page names in a sentence exist, with their options: no test runs them."""

import re
import shlex
from typing import Any

import pytest
import typer.main

from docs.generated import ROOT
from docs.wrap import pages
from kbroker.cli.commands import application
from loadtest.cli import app as loadtest
from tuning.cli import app as tune

IN_A_SENTENCE = re.compile(r"`(kbroker\s[^`]+)`")
PLACEHOLDERS = re.compile(r"[A-Z]+|\.\.\.")
HISTORY = ("docs/adr/", "docs/lab/")
"""Pages about the past may name commands that are gone."""
KBROKER: Any = typer.main.get_command(application())
PROGRAMS = {"tune": typer.main.get_command(tune), "loadtest": typer.main.get_command(loadtest)}
LOG_LINES = ("ready", "stopped", "is")
"""How lines of the broker's log go on after its name."""
WITHOUT_CHECK = ("judge",)
"""Its options are those of argparse."""


def wrong(command: str) -> str:
    """What a command line names that does not exist; empty if all of it does."""
    words = shlex.split(command.replace("\n", " "), comments=True)[1:]
    here = KBROKER
    while words and hasattr(here, "commands"):
        if words[0].startswith("-"):
            break
        if PLACEHOLDERS.fullmatch(words[0]) or words[0] in LOG_LINES:
            return ""
        name = words.pop(0)
        if name not in here.commands:
            return f"no command {name}"
        here = PROGRAMS.get(name, here.commands[name])
        if name in WITHOUT_CHECK:
            return ""
    known = {option for each in here.params for option in (*each.opts, *each.secondary_opts)}
    for word in words:
        option = word.partition("=")[0] if word.startswith("--") else word[:2]
        if re.match(r"--?[a-z]", word) and option not in known | {"--help", "-h"}:
            return f"no option {option}"
    return ""


@pytest.mark.slow
def test_commands_in_sentences_exist() -> None:
    found = {
        f"{page.relative_to(ROOT)}: {command}": why
        for page in pages()
        if not str(page.relative_to(ROOT)).startswith(HISTORY)
        for command in IN_A_SENTENCE.findall(page.read_text())
        if (why := wrong(command))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("kbroker topics move-logs --from /disk2/kbroker --wait", ""),
        ("kbroker topics list --size", "no option --size"),
        ("kbroker topics lits", "no command lits"),
        ("kbroker tune size --nic 10Gbit/s", ""),
        ("kbroker tune size --nick", "no option --nick"),
        ("kbroker COMMAND --help", ""),
    ],
)
def test_an_unknown_command_or_option_is_found(command: str, why: str) -> None:
    assert wrong(command) == why
