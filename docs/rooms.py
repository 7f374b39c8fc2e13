"""Figures of the house: `python -m docs.rooms` prints hand-written lines, names of constants that
kernels import and, for net/, io/ and control/, flat modules and imports.

A room is a folder of a package; a module that lies flat in the package is a room of its own. An
import counts once for each pair of modules, or of rooms, that it joins.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
GENERATED = (
    "kbroker/protocol/messages/",
    "kbroker/protocol/coordinator_records/",
    "kbroker/kernels/codes.py",
)
PACKAGES = ("net", "io", "control")


class Figures(NamedTuple):
    """Figures of a package. flat: modules outside of its folders. files: all modules. modules,
    rooms: pairs of them with an import."""

    flat: int
    files: int
    modules: int
    rooms: int


def hand_written() -> tuple[int, int]:
    """(lines, files) of kbroker/ that no program writes."""
    names = [path for path in (ROOT / "kbroker").rglob("*.py") if not _name(path).startswith(GENERATED)]
    return sum(len(path.read_text().splitlines()) for path in names), len(names)


def constants() -> int:
    """Names of constants that modules of kernels import one by one."""
    return sum(
        alias.name.isupper()
        for path in (ROOT / "kbroker").rglob("*kernel*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def figures(package: str) -> Figures:
    """The figures of a package of kbroker/."""
    top = f"kbroker.{package}"
    files = {_dotted(path): path for path in (ROOT / "kbroker" / package).rglob("*.py")}
    pairs = {
        (name, target) for name, path in files.items() for target in _imports(path, files) if target != name
    }
    rooms = {(_room(name, top), _room(target, top)) for name, target in pairs}
    flat = sum(path.name != "__init__.py" and path.parent.name == package for path in files.values())
    return Figures(flat, len(files), len(pairs), sum(one != other for one, other in rooms))


def callers() -> dict[str, set[str]]:
    """Room, such as "net.fetch" -> the other rooms and packages that import from it; "net" stands
    for flat modules of that package."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "kbroker").rglob("*.py"):
        package, *rest = path.relative_to(ROOT / "kbroker").parts
        place = f"{package}.{rest[0]}" if package in PACKAGES and len(rest) > 1 else package
        for room in re.findall(r"^\s*from kbroker\.(\w+\.\w+)", path.read_text(), re.MULTILINE):
            if room != place and room.startswith(tuple(f"{each}." for each in PACKAGES)):
                found[room].add(place)
    return {room: who for room, who in found.items() if (ROOT / "kbroker" / room.replace(".", "/")).is_dir()}


def package_callers() -> dict[str, set[str]]:
    """Package of kbroker/ -> the other packages that import from it."""
    found: dict[str, set[str]] = {
        path.parent.name: set() for path in (ROOT / "kbroker").glob("*/__init__.py")
    }
    for path in (ROOT / "kbroker").rglob("*/*.py"):
        package = path.relative_to(ROOT / "kbroker").parts[0]
        imports = r"^\s*(?:from kbroker\.|import kbroker\.|from kbroker import )(\w+)"
        for other in {*re.findall(imports, path.read_text(), re.MULTILINE)} & found.keys() - {package}:
            found[other].add(package)
    return found


def circle(folder: Path) -> list[str]:
    """Modules of a folder that import each other in a circle, in their order; none where there is
    no circle. Imports within functions and for type checking count, too."""
    files = {_dotted(path, folder.parent): path for path in folder.rglob("*.py")}
    graph = {name: {*_imports(path, files)} - {name} for name, path in files.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def _imports(path: Path, files: dict[str, Path]) -> Iterator[str]:
    """Modules among files that a file imports; those of a package's names count as the package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                named = f"{node.module}.{alias.name}"
                if (target := named if named in files else node.module) in files:
                    yield target


def _room(name: str, top: str) -> str:
    return ".".join(name.split(".")[: len(top.split(".")) + 1])


def _dotted(path: Path, root: Path = ROOT) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def main() -> None:
    lines, files = hand_written()
    print(f"kbroker/: {lines:,} hand-written lines in {files} files")
    print(f"kernels import {constants()} names of constants")
    for package in PACKAGES:
        found = figures(package)
        print(
            f"kbroker/{package}/: {found.flat} flat modules, {found.files} files; "
            f"imports: {found.modules} between modules, {found.rooms} between rooms"
        )


if __name__ == "__main__":
    main()
