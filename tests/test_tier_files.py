"""Files of a tier: those with a test that its expression chooses, kept until a test changes."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import tier_files

EXPRESSIONS = {"fast": "not (slow or kafka)", "kafka": "kafka and not slow", "slow": "slow"}
Folder = Callable[[str, str], None]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Writes files into the tests of a project of its own."""
    monkeypatch.setattr(tier_files, "ROOT", tmp_path)
    monkeypatch.setattr(tier_files, "KEPT", tmp_path / ".pytest_cache" / "tier-files.json")

    def write(name: str, content: str) -> None:
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    write("__init__.py", "")
    source = Path(tier_files.__file__).read_text()
    write("tier_files.py", source)
    write("test_plain.py", "def test_it() -> None: ...\n")
    write(
        "io/test_both.py",
        "import pytest\n\n@pytest.mark.parametrize('n', [1, pytest.param(2, marks=pytest.mark.kafka)])\n"
        "def test_it(n: int) -> None: ...\n",
    )
    write("test_slow.py", "import pytest\n\npytestmark = pytest.mark.slow\n\ndef test_it() -> None: ...\n")
    return write


@pytest.mark.slow
def test_files_are_those_with_a_chosen_test(folder: Folder) -> None:
    assert tier_files.files_of(EXPRESSIONS) == {
        "fast": ["tests/io/test_both.py", "tests/test_plain.py"],
        "kafka": ["tests/io/test_both.py"],
        "slow": ["tests/test_slow.py"],
    }


@pytest.mark.slow
def test_a_collection_is_kept_until_a_test_changes(folder: Folder) -> None:
    found = tier_files.files_of(EXPRESSIONS)
    kept = json.loads(tier_files.KEPT.read_text())
    tier_files.KEPT.write_text(json.dumps(kept | {"files": {"fast": ["mine"]}}))
    assert tier_files.files_of(EXPRESSIONS) == {"fast": ["mine"]}
    folder("test_new.py", "def test_it() -> None: ...\n")
    assert tier_files.files_of(EXPRESSIONS)["fast"] == [
        "tests/io/test_both.py",
        "tests/test_new.py",
        "tests/test_plain.py",
    ]
    assert tier_files.files_of({"slow": "slow"}) == {"slow": found["slow"]}


@pytest.mark.slow
def test_a_failed_collection_narrows_nothing(folder: Folder) -> None:
    folder("test_broken.py", "import no_such_module\n")
    assert tier_files.files_of(EXPRESSIONS) == {}
    assert not tier_files.KEPT.exists()


@pytest.mark.slow
def test_a_run_of_all_tests_in_parallel_notes_their_files(folder: Folder) -> None:
    arguments = ["-n", "2", "-q", *tier_files.noting(EXPRESSIONS), "-m", EXPRESSIONS["fast"]]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "tests"],
        cwd=tier_files.ROOT,
        capture_output=True,
        text=True,
    )
    assert "2 passed" in done.stdout, done.stdout
    assert (tier_files.kept(EXPRESSIONS) or {})["slow"] == ["tests/test_slow.py"]


@pytest.mark.slow
def test_a_collection_is_repeated_when_packages_change(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests that need a package which was missing belong to their tier once it is there."""
    tier_files.files_of(EXPRESSIONS)
    kept = json.loads(tier_files.KEPT.read_text())
    tier_files.KEPT.write_text(json.dumps(kept | {"files": {"fast": ["mine"]}}))
    monkeypatch.setattr(tier_files, "installed", lambda: ["pyspark 4.0"])
    assert tier_files.files_of(EXPRESSIONS)["fast"] != ["mine"]


@pytest.mark.slow
def test_two_runs_that_begin_together_collect_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    collections = []

    def counted(*arguments: Any, **named: Any) -> Any:
        collections.append(1)
        return ran(*arguments, **named)

    ran = subprocess.run
    monkeypatch.setattr(subprocess, "run", counted)
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(tier_files.files_of, [EXPRESSIONS] * 2)
    assert one == other
    assert one["slow"] == ["tests/test_slow.py"]
    assert len(collections) == 1


def test_files_that_take_long_begin_before_the_others() -> None:
    listed = [line for line in tier_files.LONGEST.read_text().splitlines() if not line.startswith("#")]
    assert not [name for name in listed if not (tier_files.ROOT / name).is_file()]
    assert tier_files.longest_first(["tests/a.py", *reversed(listed), "tests/z.py"]) == [
        *listed,
        "tests/a.py",
        "tests/z.py",
    ]


def test_parts_hold_every_file_once_and_the_longest_in_different_ones() -> None:
    files = [f"tests/{number}.py" for number in range(8)]
    parts = [tier_files.part_of(files, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(file for part in parts for file in part) == files
    assert [part[0] for part in parts] == files[:3]
    assert tier_files.part_of(files, "1/1") == files
    for wrong in ("0/3", "4/3"):
        with pytest.raises(ValueError, match=wrong):
            tier_files.part_of(files, wrong)
