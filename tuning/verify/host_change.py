"""Values of the host that are changed for a turn, and always restored.

The script that restores them is written before the first change, so that an administrator has it
even after kill -9 or a power failure.
"""

import os
import signal
from pathlib import Path
from types import TracebackType

from tuning.finding import Means, Remedy
from tuning.host.roots import Roots

UNDO_FILE = "kbroker-tune-undo.sh"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HOST = (Means.SYSCTL, Means.SYSFS)


class LeftBehind(ValueError):
    """A run was killed before it could restore the host's values."""


def check_leftovers(folder: Path) -> None:
    """Raises LeftBehind."""
    file = folder / UNDO_FILE
    if file.exists():
        raise LeftBehind(
            f"{file} is of a run that was killed: run it with sh, then remove it, then try again"
        )


def path_of(roots: Roots, means: Means, target: str) -> Path:
    """The file that holds a value of the host."""
    if means is Means.SYSCTL:
        return roots.proc / "sys" / target.replace(".", "/")
    return roots.sys / target


class HostValues:
    """Changes values of the host and can restore them. Runs in: the tuner. Owner: the command. As a
    context manager it restores all values, including kept ones, after an error or a signal; after
    an orderly end kept values stay.
    """

    def __init__(self, roots: Roots, folder: Path) -> None:
        """folder: the folder of the file that restores the values. Raises LeftBehind."""
        self._roots = roots
        self._file = folder / UNDO_FILE
        self._changed: list[Remedy] = []
        self._kept: set[str] = set()
        check_leftovers(folder)

    def apply(self, remedy: Remedy) -> None:
        """Sets the new value. Raises OSError, and then nothing is changed."""
        if remedy in self._changed:
            return
        self._changed.append(remedy)
        self._write_way_back()
        try:
            self._write(remedy.means, remedy.target, remedy.new)
        except OSError:
            self._forget(remedy)
            raise

    def restore(self, remedy: Remedy) -> None:
        """Restores the previous value, if it was changed. Raises OSError."""
        if remedy not in self._changed:
            return
        self._write(remedy.means, remedy.old_target or remedy.target, remedy.old)
        self._forget(remedy)

    def keep(self, remedy: Remedy) -> None:
        """Keep the new value at an orderly end."""
        self.apply(remedy)
        self._kept.add(remedy.target)

    def restore_all(self) -> list[str]:
        """Restore all values, the last change first, even if some fail; returns lines about those
        that failed."""
        failed = []
        for remedy in reversed(list(self._changed)):
            try:
                self.restore(remedy)
            except OSError as error:
                failed.append(f"{remedy.undo}: {error.strerror or error}")
        return failed

    def __enter__(self) -> "HostValues":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Further signals wait until everything is restored."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            if kind is None:
                self._changed = [remedy for remedy in self._changed if remedy.target not in self._kept]
            failed = self.restore_all()
            if not failed:
                self._file.unlink(missing_ok=True)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if failed:
            raise OSError(f"could not be put back, see {self._file}: {'; '.join(failed)}") from error

    def _forget(self, remedy: Remedy) -> None:
        self._changed.remove(remedy)
        self._kept.discard(remedy.target)
        self._write_way_back()

    def _write(self, means: Means, target: str, value: str) -> None:
        with open(path_of(self._roots, means, target), "w") as file:
            file.write(value)

    def _write_way_back(self) -> None:
        if not self._changed:
            self._file.unlink(missing_ok=True)
            return
        lines = ["#!/bin/sh", "# The values of this host before kbroker tune verify changed them."]
        lines += [remedy.undo for remedy in reversed(self._changed)]
        with open(self._file, "w") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
