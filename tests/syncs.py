"""Which files and folders a test's code has synced: the calls of fsync and fdatasync from
Python."""

import os
from pathlib import Path

import pytest


class Syncs:
    """Names below a folder, in the order of their syncs; "." is the folder itself."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = root
        self._names: list[str] = []
        for call in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, call, self._note)

    def _note(self, fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        if path.is_relative_to(self._root):
            self._names.append(str(path.relative_to(self._root)))

    def taken(self) -> list[str]:
        """The syncs since the last call."""
        names, self._names = self._names, []
        return names
