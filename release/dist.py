"""Makes the packages of a release in dist/: ``python -m release.dist [LEVEL...]`` (`make dist`).

A wheel with images of the kernels for this interpreter, one without for all others, the source
archive and a bill of materials. The same commit gives the same bytes: times come from
SOURCE_DATE_EPOCH or else from the commit, and one process compiles each image. Levels of x86-64
that are given are the only ones that the wheel fits.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from kbroker import __version__
from kbroker.kernels import packaged
from release import sbom

ROOT = Path(__file__).resolve().parents[1]


def epoch() -> str:
    """The moment that all files of the packages carry."""
    committed = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return os.environ.get("SOURCE_DATE_EPOCH") or subprocess.check_output(committed, text=True).strip()


def compile_images(levels: Sequence[str], folder: Path, caches: Path) -> None:
    """One image for each level, beside each other. Raises CalledProcessError."""
    running = []
    for level in levels:
        command = [
            sys.executable,
            "-m",
            "kbroker.kernels.warm",
            "--image",
            str(folder / packaged.name(level)),
        ]
        environment = os.environ | {
            "NUMBA_CPU_NAME": level,
            "NUMBA_CPU_FEATURES": "",
            "PYTHONHASHSEED": "0",
            "XDG_CACHE_HOME": str(caches / level),
        }
        running.append(subprocess.Popen(command, cwd=ROOT, env=environment))
    for one in running:
        if one.wait():
            raise subprocess.CalledProcessError(one.returncode, one.args)


def build(target: str, folder: Path, **environment: str) -> None:
    """One package by hatchling. Raises CalledProcessError."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True)


def main(levels: Sequence[str]) -> int:
    if unknown := set(levels) - set(packaged.LEVELS):
        sys.stderr.write(f"levels: {' '.join(packaged.LEVELS)}; unknown: {' '.join(sorted(unknown))}\n")
        return 2
    began = time.monotonic()
    folder = ROOT / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    moment = {"SOURCE_DATE_EPOCH": epoch()}
    if platform.machine() == "x86_64":
        with tempfile.TemporaryDirectory() as temporary:
            images = Path(temporary) / "images"
            images.mkdir()
            compile_images(levels or list(packaged.LEVELS), images, Path(temporary))
            build("wheel", folder, KBROKER_IMAGES=str(images), **moment)
    build("wheel", folder, **moment)
    build("sdist", folder, **moment)
    sbom.write(folder, __version__, ROOT / "requirements" / "run.txt")
    for file in sorted(folder.iterdir()):
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.stat().st_size:>9,}  dist/{file.name}")
    print(f"made in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
