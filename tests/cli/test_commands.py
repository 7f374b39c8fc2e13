"""The program's table of commands: a command line loads the module of its own command alone."""

import subprocess
import sys
from typing import Any

import pytest
import typer

from kbroker.cli.commands import COMPLETION, ENTRIES, application

WHOLE: Any = typer.main.get_command(application())


def names_of(first: str) -> list[str]:
    root: Any = typer.main.get_command(application(first))
    return list(root.commands)


def test_the_whole_program_has_every_command() -> None:
    assert sorted(WHOLE.commands) == sorted([*ENTRIES, "serve"])


@pytest.mark.parametrize("first", ["", "--help", "topcs", "-h", "--install-completion"])
def test_any_other_first_word_has_all_commands_to_choose_from(first: str) -> None:
    assert names_of(first) == list(WHOLE.commands)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_command_alone_is_the_one_of_the_whole_program(name: str) -> None:
    root: Any = typer.main.get_command(application(name))
    assert sorted(root.commands) == sorted([name, "serve"])
    alone, whole = root.commands[name], WHOLE.commands[name]
    assert (alone.help, alone.epilog, alone.rich_help_panel) == (
        whole.help,
        whole.epilog,
        whole.rich_help_panel,
    )
    assert [each.opts for each in alone.params] == [each.opts for each in whole.params]
    assert list(getattr(alone, "commands", ())) == list(getattr(whole, "commands", ()))
    assert alone.context_settings == whole.context_settings


def test_a_shell_that_asks_for_words_is_given_all_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPLETION, "complete_bash")
    assert names_of("topics") == list(WHOLE.commands)


@pytest.mark.parametrize(("line", "others"), [(["quotas", "--help"], ["quotas"]), (["--version"], [])])
def test_a_command_line_loads_no_module_of_another_command(line: list[str], others: list[str]) -> None:
    program = (
        f"import sys; from kbroker.cli.app import run; run({line!r}); from kbroker.cli.commands import ENTRIES; "
        "print(*(n for n, e in ENTRIES.items() if f'kbroker.cli.{e.module}' in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.split() == others
