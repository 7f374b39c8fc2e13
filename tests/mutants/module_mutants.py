"""All mutants of a module. Only what functions do: annotations, defaults, log messages and
assertions stay."""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.mutants.mutant import Mutant, one_line
from tests.mutants.operators import changes

Function = ast.FunctionDef | ast.AsyncFunctionDef

QUIET = {"log", "logger", "logging", "warnings"}
"""Names whose calls only report."""

SKIPPED_FUNCTIONS = {"__repr__", "__str__"}


def mutants_of(module: str, source: str) -> list[Mutant]:
    """In the order of the source. module: its path, as in `kbroker/io/logs.py`."""
    starts = _line_starts(source)
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for name, function in _functions(ast.parse(source)):
        for node in _nodes(function):
            for operator, replaced, after in changes(node, function):
                start = starts[replaced.lineno - 1] + replaced.col_offset  # type: ignore[attr-defined]
                end = starts[replaced.end_lineno - 1] + replaced.end_col_offset  # type: ignore[attr-defined]
                before = one_line(source.encode()[start:end].decode())
                after = one_line(after)
                same = (name, operator, before, after)
                found.append(
                    Mutant(module, name, operator, before, after, seen[same], replaced.lineno, start, end)  # type: ignore[attr-defined]
                )
                seen[same] += 1
    return found


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            if node.name not in SKIPPED_FUNCTIONS:
                yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _nodes(function: Function) -> Iterator[ast.AST]:
    """Depth first, without what no test can or need notice."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if _is_quiet(node):
            continue
        yield node
        children = [child for child in ast.iter_child_nodes(node) if not _is_skipped(node, child)]
        waiting.extend(reversed(children))


def _is_quiet(node: ast.AST) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in QUIET
        case ast.Expr(value=ast.Constant()):
            return True
    return False


def _is_skipped(parent: ast.AST, child: ast.AST) -> bool:
    match parent:
        case ast.AnnAssign():
            return child is parent.annotation
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return child is parent.args or child is parent.returns or child in parent.decorator_list
        case ast.JoinedStr():
            return True
    return False


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
