"""Which files hold tests of which tier, found by one collection and kept until a test file or an
installed package changes: a file that needs a package which is missing has no tests.

pytest imports every test file before it chooses by marks: of ten thousand tests, in each process of
each tier. With the files by name a tier imports its own alone.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".pytest_cache" / "tier-files.json"
COLLECTION = ("--collect-only", "-q", "-p", "tests.tier_files", "-p", "no:cacheprovider")


def files_of(expressions: Mapping[str, str]) -> dict[str, list[str]]:
    """Tier to the files that hold a test of it, in pytest's order; {} when pytest cannot collect:
    then the output of the tests shows why. expressions: tier to pytest's -m expression."""
    key = digest(expressions)
    try:
        kept = json.loads(KEPT.read_text())
        if kept["key"] == key:
            return dict(kept["files"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    KEPT.unlink(missing_ok=True)
    KEPT.parent.mkdir(exist_ok=True)
    requested = KEPT.with_suffix(".asked")
    requested.write_text(json.dumps({"key": key, "expressions": dict(expressions)}))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *COLLECTION, "tests"],
        cwd=ROOT,
        env=with_bytecode(),
        capture_output=True,
    )
    requested.unlink()
    if done.returncode:
        KEPT.unlink(missing_ok=True)
        return {}
    return dict(json.loads(KEPT.read_text())["files"])


def with_bytecode() -> dict[str, str]:
    """The environment, in which bytecode is kept: where none is written, as in many containers,
    every process would compile all that it imports, and each of its assertions."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(ROOT / ".cache" / "pycache")}


def digest(expressions: Mapping[str, str]) -> str:
    """Of the expressions, of the installed packages, and of the names and contents of everything
    that is collected."""
    found = hashlib.sha256(json.dumps([dict(expressions), installed()]).encode())
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def installed() -> list[str]:
    """Name and version of each package."""
    return sorted(f"{each.name} {each.version}" for each in distributions())


def sorted_files(marks_by_file: Mapping[str, list[set[str]]], expression: str) -> list[str]:
    """Files with a test that the expression chooses. marks_by_file: the marks of each test."""
    chosen = Expression.compile(expression)

    def chooses(marks: set[str]) -> bool:
        return chosen.evaluate(lambda name, /, **_: name in marks)

    files = [file for file, tests in marks_by_file.items() if any(map(chooses, tests))]
    return sorted(files, key=lambda file: Path(file).parts)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """As a plugin of the collection: writes the files of each tier that was asked for."""
    requested = json.loads(KEPT.with_suffix(".asked").read_text())
    marks_by_file: dict[str, list[set[str]]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        marks_by_file.setdefault(item.nodeid.split("::")[0], []).append(marks)
    files = {
        tier: sorted_files(marks_by_file, expression) for tier, expression in requested["expressions"].items()
    }
    KEPT.write_text(json.dumps({"key": requested["key"], "files": files}))
