"""Programs of other languages, built from the folders beside this file."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[3] / ".cache" / "neighbours"


def rust_sources(name: str) -> Path:
    """A copy of the crate with a complete Cargo.lock. The lock in the repository names no
    registry; cargo itself knows which one this machine uses."""
    copy = CACHE / name
    shutil.copytree(HERE / name, copy, dirs_exist_ok=True)
    locked = (HERE / name / "Cargo.lock").read_text()
    (copy / "Cargo.lock").unlink()
    built(["cargo", "generate-lockfile", "--quiet"], copy)
    fresh = (copy / "Cargo.lock").read_text()
    registry = next(line for line in fresh.splitlines() if line.startswith("source = "))
    (copy / "Cargo.lock").write_text(locked.replace('source = "registry"', registry))
    return copy


def built(command: list[str], folder: Path, **environment: str) -> None:
    """A program of that folder. Skips the test when it cannot be built."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, **environment},
    )
    if done.returncode:
        pytest.skip(f"{command[0]} cannot build it: {done.stderr[-300:]}")
