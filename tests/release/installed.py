"""kbroker in an environment of its own, with nothing of this tree beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.peer.kbroker_node import ROOT, KBroker


class Installed(KBroker):
    """The broker of an environment."""

    def __init__(self, folder: Path, environment: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(folder, settings)
        self.scripts = environment / "bin"
        self.directory = folder
        self.environment = {
            "PATH": str(self.scripts),  # no compiler to be found
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def _command(self) -> list[str]:
        _, _, _, *words = super()._command()  # without `python -m kbroker`
        return [str(self.scripts / "kbroker"), *words]


def empty_environment(folder: Path) -> Path:
    """An environment without packages, not even pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def install(environment: Path, *words: str) -> None:
    """Packages by uv, from where this machine's pip takes them."""
    settings = subprocess.check_output(
        [sys.executable, "-c", "import json, sync; print(json.dumps(sync.uv_environment()))"],
        cwd=ROOT / "requirements", text=True,
    )  # fmt: skip
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    python = environment / "bin" / "python"
    subprocess.run([*uv, "--python", str(python), *words], check=True, env=json.loads(settings))


def command(
    environment: Path, folder: Path, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """`kbroker` of the environment with these words, in a folder; stdout and stderr in one text."""
    return subprocess.run(
        [str(environment / "bin" / "kbroker"), *words],
        cwd=folder, env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")} | variables,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
