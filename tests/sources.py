"""The files of the repository as the house rules read them: names, texts, and the names that they
define."""

import ast
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
GENERATED_FOLDERS = ("kbroker/protocol/messages/",)


class Defined(NamedTuple):
    """A name that a file defines. lines: of a function, else 0."""

    file: str
    line: int
    name: str
    lines: int


@cache
def definitions() -> list[Defined]:
    """Of all files that people write: parsing them takes longer than all rules about them."""
    return [
        Defined(file, line, name, lines)
        for file in tracked(".py")
        if not file.startswith(GENERATED_FOLDERS)
        for node in ast.walk(ast.parse(text_of(file)))
        for line, name, lines in _defined(node)
    ]


def tracked(suffix: str = "") -> list[str]:
    """Files git knows (or would add), relative to the root."""
    return [name for name in _tracked() if name.endswith(suffix)]


@cache
def _tracked() -> list[str]:
    if not (shutil.which("git") and (ROOT / ".git").exists()):
        pytest.skip("these files come without git: it alone knows which of them are the project's")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def _defined(node: ast.AST) -> list[tuple[int, str, int]]:
    """Line, name and lines of what a node defines, if anything."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [(node.lineno, node.name, (node.end_lineno or 0) - node.lineno + 1)]
    if isinstance(node, ast.ClassDef):
        return [(node.lineno, node.name, 0)]
    if isinstance(node, ast.arg):
        return [(node.lineno, node.arg, 0)]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [(node.lineno, node.id, 0)]
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return [(node.lineno, node.attr, 0)]
    return []


def text_of(name: str) -> str:
    try:
        return (ROOT / name).read_text()
    except UnicodeDecodeError:
        return ""
