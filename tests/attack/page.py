"""The rows of docs/attacks.md, and the commands that repeat them."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Command(NamedTuple):
    """A call of pytest. expression: of -k, empty for all tests."""

    paths: tuple[str, ...]
    expression: str = ""


class Row(NamedTuple):
    """attack, number, here, kafka, repeat: cells. commands: of the last cell; "the same" is that of
    the row above."""

    attack: str
    number: str
    here: str
    kafka: str
    repeat: str
    commands: tuple[Command, ...]

    @property
    def paths(self) -> list[str]:
        return [path for command in self.commands for path in command.paths]


def rows() -> list[Row]:
    """The rows of the first table, without its head."""
    found: list[Row] = []
    for line in (ROOT / "docs" / "attacks.md").read_text().splitlines():
        if not line.startswith("| ") or line.startswith("| attack |"):
            if found and not line.strip():
                break
            continue
        attack, number, here, kafka, repeat = (cell.strip() for cell in line.strip("|").split("|"))
        found.append(Row(attack, number, here, kafka, repeat, _commands(repeat, found)))
    return found


def _commands(repeat: str, above: list[Row]) -> tuple[Command, ...]:
    texts = [part.strip() for text in re.findall(r"`([^`]+)`", repeat) for part in text.split(";")]
    if repeat.startswith("the same"):
        texts = [f"pytest {' '.join(above[-1].paths)} {' '.join(texts)}"]
    return tuple(_command(text) for text in texts if text.startswith("pytest "))


def _command(text: str) -> Command:
    words = shlex.split(text)[1:]
    if "-k" not in words:
        return Command(tuple(words))
    at = words.index("-k")
    return Command((*words[:at], *words[at + 2 :]), words[at + 1])


def selects(command: Command, nodes: list[str]) -> bool:
    """Whether a command runs at least one of some tests, given as pytest names them."""
    return any(
        node.startswith(tuple(command.paths))
        and (not command.expression or _matches(command.expression, node))
        for node in nodes
    )


def _matches(expression: str, node: str) -> bool:
    """An expression of -k: words of the test's name, its parameters or its file, with and, or,
    not."""
    path, _, name = node.partition("::")
    text = f"{path.rpartition('/')[2]}::{name}".lower()

    def word(match: re.Match[str]) -> str:
        found = match[0]
        return found if found in ("and", "or", "not") else str(found.lower() in text)

    return bool(eval(re.sub(r"[^\s()]+", word, expression), {"__builtins__": {}}))
