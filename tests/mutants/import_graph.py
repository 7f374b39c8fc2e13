"""Which tests are near to a module, by the number of imports between them. Its mirror:
`tests/mirrors.py`."""

import ast
from collections import defaultdict, deque
from pathlib import Path

PACKAGES = ("kbroker", "tests")


class ImportGraph:
    """The imports between modules of kbroker and tests, by path. An import within tests counts as
    no distance: what a test builds its scene with is a part of the test."""

    def __init__(self, root: Path) -> None:
        self._root = root
        paths = [
            str(path.relative_to(root)) for package in PACKAGES for path in (root / package).rglob("*.py")
        ]
        self._paths = {_dotted(path): path for path in paths}
        self._importers: dict[str, set[str]] = defaultdict(set)
        for path in sorted(paths):
            for imported in self._imports(path):
                self._importers[imported].add(path)

    def tests_of(self, module: str, within: int) -> dict[str, int]:
        """Files of tests and their distance: 1 imports the module, 2 imports an importer."""
        distances = {module: 0}
        waiting = deque([module])
        while waiting:
            path = waiting.popleft()
            for importer in self._importers[path]:
                distance = distances[path] + (not path.startswith("tests/"))
                if distance <= within and distance < distances.get(importer, within + 1):
                    distances[importer] = distance
                    (waiting.append if distance > distances[path] else waiting.appendleft)(importer)
        tests = {path: each for path, each in distances.items() if is_test(path)}
        return dict(sorted(tests.items(), key=lambda each: (each[1], -shared(each[0], module))))

    def _imports(self, path: str) -> set[str]:
        found = set()
        for node in ast.walk(ast.parse((self._root / path).read_text())):
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{each.name}" for each in node.names]
            else:
                continue
            for name in names:
                target = self._paths.get(name) or self._paths.get(name.rpartition(".")[0])
                if target and target != path:
                    found.add(target)
        return found


def is_test(path: str) -> bool:
    return path.startswith("tests/") and Path(path).name.startswith("test_")


def shared(one: str, two: str) -> int:
    """How many folders below the packages two files share."""
    count = 0
    for left, right in zip(Path(one).parts[1:-1], Path(two).parts[1:-1], strict=False):
        if left != right:
            break
        count += 1
    return count


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
