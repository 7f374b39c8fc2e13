"""Brings `.venv` in line with the locked, hashed requirements:
`python3 requirements/sync.py run dev`.

Uses the standard library alone, because it runs before anything is installed. What is already in
line (same lock file, same interpreter) is not touched, so a second run takes milliseconds. A file
lock lets two `make` run at once.
"""

from __future__ import annotations  # an old Python must get as far as the check of its version

import ast
import fcntl
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
OLDEST = (3, 11)
FROM_PIP = {  # environment variables of uv: what they are called in pip's configuration, what separates several
    "UV_DEFAULT_INDEX": ("index-url", " "),
    "UV_INDEX": ("extra-index-url", " "),
    "UV_FIND_LINKS": ("find-links", ","),
    "SSL_CERT_FILE": ("cert", " "),
}


def say(text: str) -> None:
    print(f"[setup] {text}", flush=True)


def digest(*paths: Path) -> str:
    """Hash of the files' content and of the interpreter that will read them."""
    state = hashlib.sha256(sys.version.encode())
    for path in paths:
        state.update(path.read_bytes())
    return state.hexdigest()


def pip(*args: str) -> None:
    subprocess.run([str(PYTHON), "-m", "pip", "--disable-pip-version-check", *args], check=True)


def uv_environment() -> dict[str, str]:
    """uv reads none of pip's settings; packages come from where the machine's pip would take
    them."""
    asked = [str(PYTHON), "-m", "pip", "config", "list"]
    settings: dict[str, str] = {}
    for line in subprocess.run(asked, check=False, capture_output=True, text=True).stdout.splitlines():
        place, _, value = line.partition("=")
        section, _, name = place.rpartition(".")
        if name not in settings or section == ":env:":
            settings[name] = ast.literal_eval(value)
    found = {
        name: between.join(settings[of_pip].split())
        for name, (of_pip, between) in FROM_PIP.items()
        if of_pip in settings
    }
    return found | os.environ


def install(*args: str) -> None:
    """Install by uv, which is pinned, too, and takes a third of pip's time."""
    if not UV.exists():
        pip(
            "install", "--quiet", "--require-hashes", "--no-deps", "-r", str(ROOT / "requirements" / "uv.txt")
        )
    command = [str(UV), "pip", "install", "--quiet", "--python", str(PYTHON), *args]
    subprocess.run(command, check=True, env=uv_environment())


def step(stamp: str, required: str, what: str, *args: str) -> None:
    """Installs once per state: the stamp in the environment remembers which."""
    mark = VENV / f".{stamp}.sync"
    if mark.exists() and mark.read_text() == required:
        return
    say(f"{what} ...")
    start = time.monotonic()
    install(*args)
    mark.write_text(required)
    say(f"{what}: {time.monotonic() - start:.0f} s")


def create() -> None:
    mark = VENV / ".python.sync"
    required = sys.version
    if PYTHON.exists() and mark.exists() and mark.read_text() == required:
        return
    say(f"creating .venv with Python {sys.version.split()[0]} ...")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    mark.write_text(required)


def main(names: list[str]) -> int:
    if sys.version_info < OLDEST:
        say(f"Python 3.11 or newer is needed, not {sys.version.split()[0]}; try: make PYTHON=python3.12 ...")
        return 1
    if not sys.platform.startswith("linux"):
        say(f"kbroker uses Linux system calls (eventfd, sendfile, preadv2); this is {sys.platform}")
        return 1
    with open(ROOT / "requirements" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            create()
            for name in names:
                locked = ROOT / "requirements" / f"{name}.txt"
                step(
                    name,
                    digest(locked),
                    f"installing requirements/{name}.txt (locked, hashed)",
                    "--require-hashes",
                    "--no-deps",
                    "-r",
                    str(locked),
                )
            project = digest(ROOT / "pyproject.toml", ROOT / "requirements" / "run.txt")
            step(
                "project",
                project,
                "installing kbroker (editable)",
                "--no-deps",
                "--no-build-isolation",
                "-e",
                str(ROOT),
            )
        except subprocess.CalledProcessError as error:
            say(f"failed ({error.returncode}): {' '.join(map(str, error.cmd))}")
            say(
                f"packages come from where pip would take them; {PYTHON} -m pip config list shows its settings"
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
