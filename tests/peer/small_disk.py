"""A small file system that a test can fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of that many bytes, in a folder that is made. Skips the test without root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path, mode: Literal["wb", "ab"] = "wb") -> None:
    """Take all free bytes."""
    with path.open(mode, buffering=0) as file:
        for size in (1 << 20, 4096):
            while True:
                try:
                    file.write(b"\0" * size)
                except OSError:
                    break
