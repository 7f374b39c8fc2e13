"""Which files hold tests of which tier, found by one collection and kept until a test file or an
installed package changes: a file that needs a package which is missing has no tests.

pytest imports every test file before it chooses by marks: of ten thousand tests, in each process of
each tier. With the files by name a tier imports its own alone. A tier of nearly all files collects
them all and notes the files of the others.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".pytest_cache" / "tier-files.json"
LONGEST = ROOT / "tests" / "longest.txt"
COLLECTION = ("--collect-only", "-q", "-p", "no:cacheprovider")


def files_of(expressions: Mapping[str, str]) -> dict[str, list[str]]:
    """Tier to the files that hold a test of it, in pytest's order; {} when pytest cannot collect:
    then the output of the tests shows why. expressions: tier to pytest's -m expression."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two runs in one tree the second finds what the first has kept
        files = kept(expressions)
        if files is not None:
            return files
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *COLLECTION, *noting(expressions), "tests"],
            cwd=ROOT,
            env=with_bytecode(),
            capture_output=True,
        )
        if done.returncode:
            KEPT.unlink(missing_ok=True)
        return kept(expressions) or {}


def kept(expressions: Mapping[str, str]) -> dict[str, list[str]] | None:
    """What an earlier collection found; None if something has changed since."""
    try:
        found = json.loads(KEPT.read_text())
        return dict(found["files"]) if found["key"] == digest(expressions) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def noting(expressions: Mapping[str, str]) -> tuple[str, ...]:
    """pytest's arguments with which a collection of all tests notes the files of each tier."""
    KEPT.unlink(missing_ok=True)
    KEPT.parent.mkdir(exist_ok=True)
    requested = {"key": digest(expressions), "expressions": dict(expressions)}
    KEPT.with_suffix(".requested").write_text(json.dumps(requested))
    return ("-p", "tests.tier_files")


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


def longest_first(files: Iterable[str]) -> list[str]:
    """The files in their order, but those of tests/longest.txt before the others."""
    lines = [line for line in LONGEST.read_text().splitlines() if not line.startswith("#")]
    places = {file: place for place, file in enumerate(lines)}
    return sorted(files, key=lambda file: places.get(file, len(places)))


def part_of(files: Sequence[str], part: str) -> list[str]:
    """The files of one part of several: "2/3" is the second of three, into which the longest ones
    are dealt first. Raises ValueError for a part that there is not."""
    number, parts = map(int, part.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(f"there is no part {part}")
    return list(files[number - 1 :: parts])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """As a plugin of a collection, before it chooses by marks: writes the files of each tier. Each
    process of a run in parallel has collected the same tests and writes the same."""
    if session.testsfailed:  # files that cannot be imported are missing here
        return
    requested = json.loads(KEPT.with_suffix(".requested").read_text())
    marks_by_file: dict[str, list[set[str]]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        marks_by_file.setdefault(item.nodeid.split("::")[0], []).append(marks)
    files = {
        tier: sorted_files(marks_by_file, expression) for tier, expression in requested["expressions"].items()
    }
    whole = KEPT.with_suffix(f".{os.getpid()}")
    whole.write_text(json.dumps({"key": requested["key"], "files": files}))
    whole.replace(KEPT)
