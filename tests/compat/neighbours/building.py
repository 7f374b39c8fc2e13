"""Programs of other languages, built from the folders beside this file."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = Path(__file__).parents[3] / ".cache" / "neighbours"
SLOW: set[str] = set()
"""Programs whose registry did not answer in time in this run: no test waits for it again."""


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
    if command[0] in SLOW:
        pytest.skip(f"{command[0]} cannot build it: it takes too long")
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=500,
            env={**os.environ, **environment},
        )
    except subprocess.TimeoutExpired:  # a registry that never answers
        SLOW.add(command[0])
        pytest.skip(f"{command[0]} cannot build it: it takes too long")
    if done.returncode:
        pytest.skip(f"{command[0]} cannot build it: {done.stderr[-300:]}")


def node_with(package: str) -> tuple[str, str]:
    """Node.js and the folder of modules that has the package. Skips the test without them."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("no Node.js")
    home = CACHE / package.rpartition("@")[0].strip("@").replace("/", "-")
    home.mkdir(parents=True, exist_ok=True)
    if npm in SLOW:
        pytest.skip(f"npm cannot install {package}")
    if installed(home, package):
        return node, str(home / "node_modules")
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(home), package]
    if not ends_well(command, 200):
        pytest.skip(f"npm cannot install {package}")
    return node, str(home / "node_modules")


def installed(home: Path, package: str) -> bool:
    """Whether an earlier run has installed this version, to its end, at which npm writes the lock.
    npm itself would ask its registry again."""
    name, _, version = package.rpartition("@")
    try:
        found = json.loads((home / "node_modules" / name / "package.json").read_text())
        lock = json.loads((home / "package-lock.json").read_text())
        locked = lock["packages"][f"node_modules/{name}"]
    except (OSError, ValueError, LookupError):
        return False
    return bool(found.get("version") == locked.get("version") == version)


def ends_well(command: list[str], timeout_s: float) -> bool:
    """Whether a program ends with 0 within this time. A registry that never answers is as good as
    none."""
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout_s).returncode == 0
    except subprocess.TimeoutExpired:
        SLOW.add(command[0])
        return False


def run(command: list[str], **environment: str) -> str:
    """A client's program, which must end well; gives what it prints."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
