"""Which test module mirrors a module of kbroker/: found by the rules below, or named in
mirrors.txt.

`python -m tests.mirrors MODULE...` prints it.
"""

import ast
import re
import sys
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_suffix(".txt")
KEY = re.compile(r"API = Api\(\s*ApiKey\.(\w+)")


class Mirrors:
    """files: of the repository, relative to its root."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._text = {name: (ROOT / name).read_text() for name in files}
        parsed = {name: _parsed(text) for name, text in self._text.items()}
        self._imports = {name: imports for name, (imports, _) in parsed.items()}
        self._with_logic = {name for name, (_, has_logic) in parsed.items() if has_logic}
        self._file_of = {_dotted(name): name for name in files}
        self._rooms: dict[str, list[str]] = {}
        for name in files:
            self._rooms.setdefault(str(Path(name).parent), []).append(name)

    def modules(self) -> list[str]:
        """Modules of kbroker/ with logic: those that define a function."""
        return [
            name
            for name in self._files
            if name.startswith("kbroker/") and not name.startswith("kbroker/protocol/messages/")
            if name in self._with_logic
        ]

    def of(self, module: str) -> str | None:
        """The test module that mirrors it: the one with its name; else the nearest one that imports
        it, directly or through support modules; for an API file, one that sends this API's
        requests; else the mirror of a module in the same room that imports it."""
        return self._direct(module) or next(
            (found for user in self._users_in_room(module) if (found := self._direct(user))), None
        )

    def found(self, module: str) -> str | None:
        """As `of`, or as mirrors.txt says."""
        return self.of(module) or self._listed.get(module)

    def _direct(self, module: str) -> str | None:
        room = _room_of_tests(module)
        named = f"{room}/test_{Path(module).stem}.py"
        if named in self._text:
            return named
        package = "/".join(room.split("/")[:2])
        users = self._tests_of.get(_dotted(module), [])
        for place in (room, package, "tests"):
            if found := [name for name in users if name.startswith(place + "/")]:
                return found[0]
        return self._of_api(module)

    def _of_api(self, module: str) -> str | None:
        key = KEY.search(self._text[module]) if module.startswith("kbroker/api/") else None
        if key is None:
            return None
        sends = re.compile(rf"\bApiKey\.{key.group(1)}\b")
        places = ("tests/api/", "tests/compat/")
        return next((n for n in self._text if n.startswith(places) and sends.search(self._text[n])), None)

    def _users_in_room(self, module: str) -> list[str]:
        room = self._rooms[str(Path(module).parent)]
        return [name for name in room if name != module and _dotted(module) in self._imports[name]]

    @cached_property
    def _listed(self) -> dict[str, str]:
        return listed()

    @cached_property
    def _tests_of(self) -> dict[str, list[str]]:
        """The test modules that import a name, directly or through modules of tests/; sorted."""
        found: dict[str, list[str]] = {}
        for name in sorted(self._files):
            if name.startswith("tests/") and Path(name).name.startswith("test_"):
                for imported in self._reach(name, set()):
                    found.setdefault(imported, []).append(name)
        return found

    def _reach(self, name: str, seen: set[str]) -> set[str]:
        seen.add(name)
        found = set(self._imports[name])
        for imported in self._imports[name]:
            file = self._file_of.get(imported, "")
            if file.startswith("tests/") and file not in seen:
                found |= self._reach(file, seen)
        return found


def of_this_tree() -> Mirrors:
    """The mirrors of all modules in this tree."""
    tops = (ROOT / top for top in ("kbroker", "tests"))
    return Mirrors([str(path.relative_to(ROOT)) for top in tops for path in sorted(top.rglob("*.py"))])


def listed() -> dict[str, str]:
    """mirrors.txt: the test modules of those modules for which the rules find none."""
    lines = TABLE.read_text().splitlines()
    rows = (line.partition(" ") for line in lines if line and not line.startswith("#"))
    return {module: test for module, _, test in rows}


def _room_of_tests(module: str) -> str:
    return "/".join(("tests", *Path(module).parent.parts[1:]))


def _dotted(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _parsed(text: str) -> tuple[set[str], bool]:
    """What a file imports, and whether it defines a function."""
    found, has_logic = set(), False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        has_logic = has_logic or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return found, has_logic


if __name__ == "__main__":
    mirrors = of_this_tree()
    for module in sys.argv[1:]:
        print(module, mirrors.found(module))
