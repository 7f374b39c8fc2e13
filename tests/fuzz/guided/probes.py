"""Coverage of kbroker's modules: a probe begins each block of a function, and each operand that
Python may skip. It counts, up to 255, how often it was passed.

Modules get their probes when they are imported, in this process alone. sys.settrace calls a
function for each line, coverage.py's tracer gives lines without counts, and atheris is a library of
machine code for some processors: a probe is two subscripts, and a run with all of them takes less
than twice the time.
"""

import ast
import builtins
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOM = 1 << 18
_COUNTS, _NEXT, _SET = "__probe_counts__", "__probe_next__", "__probe_set__"
_NEXT_COUNT = bytes(min(count + 1, 255) for count in range(256))
_LEVELS = (1, 2, 3, 4, 8, 16, 32, 128)
"""Counts that differ: the first of each range."""
_BITS: NDArray[np.uint8] = np.array(
    [0] + [1 << sum(count >= level for level in _LEVELS) - 1 for count in range(1, 256)], np.uint8
)
WITHOUT = (
    "kbroker.kernels.plain",
    "kbroker.kernels.jit",
    "kbroker.protocol.compile_",
    "kbroker.protocol.messages.",
)
"""Modules without probes: what checks memory, and what runs once for each version of a message."""
GENERATING = ("kbroker.protocol.compile_decode", "kbroker.protocol.compile_encode")
"""Modules that compile functions, which have probes."""
GENERATED = "kbroker.protocol.generated"
MAX_WORD_BYTES = 40


class Place(NamedTuple):
    """Where a probe is."""

    module: str
    line: int


class Probes:
    """Owner: the process. places: of all probes, by number. words: texts and numbers of the
    modules, for a dictionary."""

    def __init__(self) -> None:
        self.counts = bytearray(ROOM)
        self.places: list[Place] = []
        self.words: dict[str, set[bytes]] = {}
        self._view: NDArray[np.uint8] = np.frombuffer(self.counts, np.uint8)
        self._none = bytes(ROOM)

    def install(self) -> None:
        """From now on modules of kbroker are imported with probes."""
        early = [name for name in sys.modules if name.startswith("kbroker.")]
        if early:
            raise RuntimeError(f"imported without probes: {early[:3]}")
        setattr(builtins, _COUNTS, self.counts)
        setattr(builtins, _NEXT, _NEXT_COUNT)
        setattr(builtins, _SET, self.counts.__setitem__)
        sys.meta_path.insert(0, _Finder(self))

    def clear(self) -> None:
        """Before an input."""
        self.counts[:] = self._none

    def passed(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Numbers of the probes that were passed since `clear`, and a bit for how often each."""
        numbers = np.flatnonzero(self._view[: len(self.places)])
        return numbers, _BITS[self._view[numbers]]

    def of(self, modules: Sequence[str]) -> NDArray[np.int64]:
        """Numbers of the probes of modules whose names begin so."""
        chosen = tuple(modules)
        return np.array(
            [number for number, place in enumerate(self.places) if place.module.startswith(chosen)], np.int64
        )

    def place(self, module: str, line: int) -> int:
        """The number of a new probe."""
        if len(self.places) == ROOM:
            raise RuntimeError("ROOM is too small for the probes of all modules")
        self.places.append(Place(module, line))
        return len(self.places) - 1

    def code(self, source: str | bytes, path: str, module: str) -> CodeType:
        """A module's code with probes."""
        tree = ast.parse(source, path)
        _Insertion(self, module).visit(tree)
        code: CodeType = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
        return code

    def generated(self, source: str, name: str, _mode: str) -> CodeType:
        """In place of `compile` in modules that generate code."""
        return self.code(source, name, GENERATED)


class Seen:
    """Coverage of all inputs so far."""

    def __init__(self) -> None:
        self.bits: NDArray[np.uint8] = np.zeros(ROOM, np.uint8)

    def add(self, passed: tuple[NDArray[np.int64], NDArray[np.uint8]]) -> tuple[int, int]:
        """How many probes were passed for the first time, and how many with a new count."""
        numbers, bits = passed
        before = self.bits[numbers]
        fresh = int(np.count_nonzero(before == 0))
        more = int(np.count_nonzero(bits & ~before))
        if more:
            self.bits[numbers] = before | bits
        return fresh, more

    def among(self, numbers: NDArray[np.int64]) -> int:
        """How many of these probes were passed."""
        return int(np.count_nonzero(self.bits[numbers]))


class _Finder:
    """An entry of sys.meta_path."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module of kbroker with probes; None for others."""
        if not name.startswith("kbroker.") or (name.startswith(WITHOUT) and name not in GENERATING):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path, self._probes)
        return spec


class _Loader(SourceFileLoader):
    """Neither reads nor writes compiled files."""

    def __init__(self, name: str, path: str, probes: Probes) -> None:
        super().__init__(name, path)
        self._probes = probes

    def get_code(self, fullname: str) -> CodeType:
        """With probes, unless it is one of WITHOUT."""
        source = self.get_data(self.path)
        if fullname.startswith(WITHOUT):
            return compile(source, self.path, "exec", dont_inherit=True)
        return self._probes.code(source, self.path, fullname)

    def exec_module(self, module: ModuleType) -> None:
        """As the loader of Python."""
        if module.__name__ in GENERATING:
            module.__dict__["compile"] = self._probes.generated
        super().exec_module(module)


class _Insertion(ast.NodeTransformer):
    """Inserts the probes of one module."""

    def __init__(self, probes: Probes, module: str) -> None:
        self._probes = probes
        self._module = module
        self._depth = 0
        self._words = probes.words.setdefault(module, set())

    def visit_FunctionDef(self, node: Any) -> Any:
        """Its blocks, not its signature."""
        self._depth += 1
        node.body = self._visited(node.body)
        self._depth -= 1
        first = node.body[0]
        has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        node.body.insert(int(has_docstring), self._probe(node))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_If(self, node: Any) -> Any:
        """Also where the condition does not hold."""
        self.generic_visit(node)
        if self._depth:
            node.body.insert(0, self._probe(node))
            node.orelse.insert(0, self._probe(node))
        return node

    def visit_For(self, node: Any) -> Any:
        """The body of a loop, which counts."""
        self.generic_visit(node)
        if self._depth:
            node.body.insert(0, self._probe(node))
        return node

    visit_AsyncFor = visit_While = visit_ExceptHandler = visit_match_case = visit_For  # noqa: N815

    def visit_IfExp(self, node: Any) -> Any:
        """Both values."""
        self.generic_visit(node)
        if self._depth:
            node.body, node.orelse = self._operand(node.body), self._operand(node.orelse)
        return node

    def visit_BoolOp(self, node: Any) -> Any:
        """The operands after the first."""
        self.generic_visit(node)
        if self._depth:
            node.values[1:] = [self._operand(value) for value in node.values[1:]]
        return node

    def visit_Constant(self, node: ast.Constant) -> Any:
        """A word of the dictionary."""
        value = node.value
        if self._depth and isinstance(value, str | bytes):
            word = value.encode("utf-8", "replace") if isinstance(value, str) else value
            if 1 < len(word) <= MAX_WORD_BYTES:
                self._words.add(word)
        elif self._depth and type(value) is int and abs(value) > 1:
            sizes = [size for size in (1, 2, 4, 8) if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1]
            self._words.update(value.to_bytes(size, "big", signed=True) for size in sizes)
        return node

    def _visited(self, body: list[Any]) -> list[Any]:
        return [self.visit(statement) for statement in body]

    def _probe(self, at: Any) -> ast.stmt:
        line = getattr(at, "lineno", None) or at.pattern.lineno
        number = self._probes.place(self._module, line)
        made: ast.stmt = ast.parse(f"{_COUNTS}[{number}] = {_NEXT}[{_COUNTS}[{number}]]").body[0]
        return _located(made, line)

    def _operand(self, value: Any) -> ast.expr:
        number = self._probes.place(self._module, value.lineno)
        made: Any = ast.parse(f"{_SET}({number}, 1) or 0", mode="eval").body
        made = _located(made, value.lineno)
        made.values[1] = value
        return made


def _located(made: Any, line: int) -> Any:
    node: Any
    for node in ast.walk(made):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = line
    return made
