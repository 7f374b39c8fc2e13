"""Output of commands: tables or JSON to stdout, remarks to stderr."""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import typer

NONE = "-"
DUMB = ("dumb", "unknown")
_NOT_SHOWN: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that JSON allows in a string and that control a terminal, turn the direction of a
line, or have no bytes in UTF-8."""


def print_json(value: Any) -> None:
    """One JSON document, indented."""
    print(json_text(value, indent=2, default=str))


def json_text(value: Any, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """A JSON document in readable characters, with escapes for those that would control the
    terminal: clients choose names and records."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=default)
    return _NOT_SHOWN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns with numbers to the right; None is a dash. Lines never wrap, so that
    grep works."""
    lines = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(line[i]) for line in lines) for i in range(len(headers))]
    widths = [max([len(header), *(columns(line[i]) for line in lines)]) for i, header in enumerate(headers)]
    head = _aligned(headers, widths, numeric)
    print(typer.style(head, bold=True) if takes_escapes() else head)
    for line in lines:
        print(_aligned(line, widths, numeric))


def takes_escapes() -> bool:
    """Whether stdout is a terminal that knows escape sequences, which those of some editors do
    not."""
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in DUMB


def say(text: str) -> None:
    """Print a remark to stderr, so that stdout has only the result. Its names and reasons may be
    those of clients and servers."""
    print(printed(text, "\n\t"), file=sys.stderr, flush=True)


def _cell(value: object) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return printed(",".join(str(item) for item in value))
    return printed(str(value))


def printed(text: str, kept: str = "") -> str:
    """The text, with escapes for what would control the terminal or add lines: clients choose
    names. kept: characters that stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def _is_number(text: str) -> bool:
    return text == NONE or text.lstrip("-").replace(".", "", 1).isdigit()


def _aligned(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = []
    for cell, width, right in zip(cells, widths, numeric, strict=True):
        blanks = " " * (width - columns(cell))
        parts.append(blanks + cell if right else cell + blanks)
    return "  ".join(parts).rstrip()


def columns(text: str) -> int:
    """The columns of a terminal that a printable text takes: a Chinese character two, an accent
    that is a character of its own none."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
