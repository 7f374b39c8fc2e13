"""Pages that the program names exist, and it names them by the command that prints them: an
installed wheel has no docs/ folder."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from docs.generated import ROOT
from kbroker.cli.commands import application
from kbroker.cli.pages import pages
from loadtest.cli import app as loadtest
from tuning.cli import app as tune

PACKAGES = ("kbroker", "loadtest", "spark_validation", "tuning")
FILE = re.compile(r"\bdocs/[\w/-]+\.md|\b(?:README|CONTRIBUTING|CHANGELOG|SECURITY)\.md")
COMMAND = re.compile(r"kbroker docs ([a-z][\w/-]*)")
OTHER = {".yml", ".yaml", ".json", ".js", ".html", ".xml"}


def texts() -> Iterator[tuple[str, str]]:
    """Strings of the program but its docstrings, its other files, and the help of its commands."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix == ".py":
                yield from ((str(path.relative_to(ROOT)), text) for text in strings(path.read_text()))
            elif path.suffix in OTHER and "vendor" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text()
    for program in (application(), loadtest, tune):
        yield from helps(typer.main.get_command(program))


def strings(source: str) -> list[str]:
    """The string constants of a module, without those that are a statement, as a docstring is."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [node.value for node in constants if isinstance(node.value, str)]


def helps(command: Any) -> Iterator[tuple[str, str]]:
    """The help texts of a command and of those below it."""
    yield command.name, " ".join(filter(None, (command.help, command.epilog)))
    for each in command.params:
        yield command.name, getattr(each, "help", None) or ""
    for each in getattr(command, "commands", {}).values():
        yield from helps(each)


def wrong(text: str) -> list[str]:
    """Files of docs/ in a text, and pages that do not exist."""
    return FILE.findall(text) + [name for name in COMMAND.findall(text) if name not in pages()]


def test_the_program_names_pages_that_its_user_can_print() -> None:
    found = {(where, name) for where, text in texts() for name in wrong(text)}
    assert found == set()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('raise Failed("see docs/backup.md")', ["docs/backup.md"]),
        ('raise Failed(f"{path}: `kbroker docs bakcup`")', ["bakcup"]),
        ('"""Of docs/backup.md."""\nx = "`kbroker docs backup`, `kbroker docs lab/start`"', []),
    ],
)
def test_a_page_that_a_user_cannot_print_is_found(source: str, expected: list[str]) -> None:
    assert [name for text in strings(source) for name in wrong(text)] == expected


def test_the_wheel_has_the_pages() -> None:
    """release/hatch_build.py copies them to where `kbroker docs` looks first."""
    from release.hatch_build import Contents

    metadata: Any = None
    hook = Contents(str(ROOT), {}, metadata, metadata, "", "wheel")
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("standard", data)
    assert {Path(target) for target in data["force_include"].values()} == {
        Path("kbroker", "pages", f"{name}.md") for name in pages()
    }
