"""A copy of the project in which mutants are tried: the project's own files are never changed."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutant import Mutant


class TreeCopy:
    """Files that git knows or would add, those that are newer each time."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._root = root
        self._clock = itertools.count(1)

    def refresh(self) -> None:
        """Copy what has changed; remove what is gone."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=self._root, capture_output=True, text=True, check=True)
        names = {name for name in listed.stdout.split("\0") if name and (self._root / name).is_file()}
        for name in names:
            source, target = self._root / name, self.folder / name
            if not target.exists() or _state(source) != _state(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        for old in list(self.folder.rglob("*.py")):
            if str(old.relative_to(self.folder)) not in names:
                old.unlink()

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """The copy with the mutant; afterwards the module is as it was."""
        target = self.folder / mutant.module
        source = (self._root / mutant.module).read_text()
        target.write_text(mutant.applied(source))
        # Python compares a cached module with its source's size and whole seconds: each mutant has
        # a time of its own.
        past = (
            int((self._root / mutant.module).stat().st_mtime)
            - 10 * next(self._clock)
            - os.getpid() % 10_000_000
        )
        os.utime(target, (past, past))
        try:
            yield
        finally:
            shutil.copy2(self._root / mutant.module, target)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
