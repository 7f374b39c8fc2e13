"""`python -m kbroker` uses its own packages in whatever folder it is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.__main__ import PACKAGES, forget_current_folder

REFUSES = "raise SystemExit('this is the file of a user')\n"


def kbroker(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kbroker", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("name", ["loadtest", "tuning", "typer", "pathlib"])
def test_a_module_of_the_current_folder_is_not_imported(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(REFUSES)
    done = kbroker(tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("kbroker ")


def test_only_a_source_tree_stays_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, left in ((Path(PACKAGES), 2), (tmp_path, 1)):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [str(folder), "/lib"])
        forget_current_folder()
        assert sys.path[-left:] == sys.path == [str(folder), "/lib"][-left:]


def test_a_folder_that_was_deleted_is_no_reason_to_fail(tmp_path: Path) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    script = f"rmdir '{folder}' && exec '{sys.executable}' -m kbroker --version"
    done = subprocess.run(["sh", "-c", script], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
