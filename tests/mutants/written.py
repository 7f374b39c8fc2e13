"""Mutants that were written by hand (written.csv): what no operator makes, for instance a check
that is left out, another unit, or a call in another place."""

import ast
import csv
from collections.abc import Collection
from pathlib import Path

from tests.mutants.mutant import Mutant

WRITTEN = Path(__file__).with_name("written.csv")
OPERATOR = "written"
FIELDS = ("module", "before", "after")


def written(root: Path, names: Collection[str], path: Path = WRITTEN) -> tuple[list[Mutant], list[str]]:
    """The mutants of these modules, and those whose text the module does not have exactly once: it
    has changed since."""
    found, gone = [], []
    for row in _rows(path):
        module, before, after = (row[name] for name in FIELDS)
        if module not in names:
            continue
        source = (root / module).read_text()
        if source.count(before) != 1:
            gone.append(f"{module}: {before}")
            continue
        at = source.index(before)
        line = source.count("\n", 0, at) + 1
        start = len(source[:at].encode())
        end = start + len(before.encode())
        function = _function(ast.parse(source), line + before[: before.index(before.strip())].count("\n"))
        found.append(Mutant(module, function, OPERATOR, before, after, 0, line, start, end))
    return found, gone


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _function(tree: ast.AST, line: int, prefix: str = "") -> str:
    """The name of the outermost function or method around a line; empty outside of any."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if not node.lineno <= line <= (node.end_lineno or line):
                continue
            if isinstance(node, ast.ClassDef):
                return _function(node, line, f"{prefix}{node.name}.")
            return prefix + node.name
    return prefix.removesuffix(".")
