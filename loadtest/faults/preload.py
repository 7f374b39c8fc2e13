"""A library that is preloaded into the broker under test. It shifts the broker's clock and slows
its disk, without root and without changes of the machine. Needs a C compiler."""

import shutil
import subprocess
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).parent / "preload.c"
PAGE_BYTES = 4096
CLOCK_NS, DELAY_US, CALLS = range(3)


class NoPreload(RuntimeError):
    """The library cannot be built; the text has the reason."""


class Preload:
    """Owner: the broker's keeper. Both fields act at once on every process of the broker."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise NoPreload("needs a C compiler (cc) on this machine")
        folder.mkdir(parents=True, exist_ok=True)
        self._library = folder / "preload.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise NoPreload(f"cc failed: {built.stderr.strip()[-200:]}")
        self._file = folder / "preload.page"
        self._file.write_bytes(bytes(PAGE_BYTES))
        self._words = np.memmap(self._file, np.int64, "r+")

    def environment(self) -> dict[str, str]:
        """Environment variables of the broker."""
        return {"LD_PRELOAD": str(self._library), "LOADTEST_PRELOAD": str(self._file)}

    def shift_clock(self, seconds: float) -> None:
        self._words[CLOCK_NS] = int(seconds * 1e9)

    def slow_disk(self, milliseconds: float) -> None:
        self._words[DELAY_US] = int(milliseconds * 1e3)

    @property
    def delayed_calls(self) -> int:
        return int(self._words[CALLS])
