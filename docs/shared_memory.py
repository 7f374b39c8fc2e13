"""docs/shared-memory.md: every table that kernels and Python share, from its declaration, and who
writes its words.

Which modules write a word is read from the source: what they store into, or assign.
"""

import ast
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import kbroker
from kbroker.kernels.row import RowType, StructType, Word

Table = RowType | StructType
ROOT = Path(kbroker.__file__).parent
STORES = {"put", "fetch_add", "fetch_or", "exchange", "link_free"}
COPIES = {"snap", "_snapshot"}  # what holds a copy of a row
PLACES = (
    ("net", "Network process"),
    ("io", "IO worker"),
    ("purgatory", "IO worker"),
    ("kernels", "IO worker"),
    ("cleaner", "Cleaner"),
    ("control", "Control"),
)

HEAD = """# Shared memory and tables of kernels

Look here to find what a word of a table means, who may write it, and which modules do. The page is generated from the
declarations (`kbroker/kernels/row.py` says how to write one) and from the sources; `make docs` writes it.

A row is a sequence of int64 words in native byte order. `Table.FIELD` is the number of a word, `Table.STRIDE` the bytes
of a row; a kernel reads a word by `get(row, Table.FIELD)`, Python by `table[number, Table.FIELD]`. A table that is
shared between processes says with whom; all others are private to their process. One writer sets a word, unless it
says more.
"""


def tables() -> Iterator[Table]:
    """Every table that is declared anywhere, those of shared memory first."""
    found = []
    for module in pkgutil.walk_packages(kbroker.__path__, "kbroker."):
        *packages, name = module.name.split(".")
        declares = name.endswith(("rows", "layout")) or packages[-1] == "rows"
        if (
            declares
            and not module.ispkg
            and not name.endswith("_kernel")
            and module.name != "kbroker.kernels.rows"
        ):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, Table) and value.__module__ == module.name:
                    found.append(value)
    yield from sorted(found, key=lambda one: not one.shared)


class Writes(ast.NodeVisitor):
    """Words that one module writes, as `Table.FIELD`."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: set[str] = set()
        self._names = {
            alias.asname or alias.name: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        self.visit(tree)

    def _note(self, *parts: ast.AST) -> None:
        for part in parts:
            for node in ast.walk(part):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    self.found.add(f"{self._names.get(node.value.id, node.value.id)}.{node.attr}")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if node.args and isinstance(node.args[0], ast.Name) and node.args[0].id in COPIES:
            pass
        elif name in STORES:
            self._note(*node.args[:2])
        elif name.startswith("store_"):
            self._note(*node.args[:1])
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._target(target)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._target(node.target)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._note(*(key for key in node.keys if key is not None))  # words by number, set one by one
        self.generic_visit(node)

    def _target(self, target: ast.expr) -> None:
        for one in target.elts if isinstance(target, ast.Tuple) else [target]:
            if isinstance(one, ast.Subscript) and getattr(one.value, "attr", "") not in COPIES:
                self._note(one.slice)


def writers() -> dict[str, list[str]]:
    """`Table.FIELD` -> the modules that write it, without `.py`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for name in Writes(ast.parse(path.read_text())).found:
            found[name].append(str(path.relative_to(ROOT).with_suffix("")))
    return found


def place(table: Table) -> str:
    """The heading under which a table stands."""
    if table.shared:
        return "Shared between processes"
    return dict(PLACES)[table.__module__.split(".")[1]]


def _section(table: Table, written: dict[str, list[str]]) -> str:
    size = f"{table.WORDS} words" if isinstance(table, RowType) else f"{table.SIZE} bytes"
    shared = f", shared with {table.shared}" if table.shared else ""
    source = table.__module__.removeprefix("kbroker.").replace(".", "/")
    lines = [
        f"### {table.__name__}",
        "",
        (table.__doc__ or "").split("\n\n")[0].replace("\n    ", " "),
        f"`{source}.py`: {size}, written by {table.writer}{shared}.",
        "",
        f"| {'word' if isinstance(table, RowType) else 'byte'} | name | unit | meaning | written by |",
        "|---|---|---|---|---|",
    ]
    lines += [_line(table, word, written) for word in table]
    return "\n".join(lines) + "\n"


def _line(table: Table, word: Word, written: dict[str, list[str]]) -> str:
    last = word.number + word.count - 1
    number = (
        f"{word.number}" if last == word.number or isinstance(table, StructType) else f"{word.number}-{last}"
    )
    modules = ", ".join(f"`{module}`" for module in written.get(f"{table.__name__}.{word.name}", []))
    who = word.writer if word.writer != table.writer else ""
    says = ": ".join(part for part in (who, modules) if part)
    return f"| {number} | `{word.name}` | {word.unit} | {word.meaning} | {says} |".replace("  ", " ")


def page() -> str:
    """The whole page."""
    written = writers()
    parts = [HEAD]
    heading = ""
    for table in sorted(tables(), key=lambda one: ("Shared" not in place(one), place(one))):
        if place(table) != heading:
            heading = place(table)
            parts.append(f"## {heading}\n")
        parts.append(_section(table, written))
    return "\n".join(parts)
