"""Modules of a role that imports them itself: the parent imports them after the start, for the
role's next process."""

import importlib
import os
import sys
from collections import deque
from collections.abc import Collection
from contextlib import suppress

from kbroker.ipc.clock import monotonic_ms

EVERY_MS = 20
"""Pause between two modules, each of which blocks the parent for a few milliseconds."""
READ_BYTES = 1 << 16  # what a pipe holds


class Preloading:
    """Runs in: acceptor; `report` in the role's first process. Owner: the supervisor.

    The first process reports its imported modules in the order in which their imports ended. Each
    module comes after the modules that it needs, so no import takes long. If the role dies earlier,
    its next process imports the rest itself."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._names: deque[str] = deque()
        self._next_ms = 0

    def fds(self) -> list[int]:
        """The parent's own."""
        return [self._reading] if self._reading >= 0 else []

    def report(self, before: Collection[str]) -> None:
        """Called in the child, before it serves others: send the names of the modules it has
        imported. before: modules that were imported before."""
        names = [name for name in sys.modules if name not in before]
        with suppress(OSError):  # the parent has gone
            os.write(self._writing, "\n".join(names).encode())
        os.close(self._writing)

    def forked(self) -> None:
        """Called in the parent, when the first process has been forked."""
        os.close(self._writing)

    def begin(self) -> None:
        """All processes are ready: read the names."""
        with suppress(BlockingIOError):
            self._names.extend(os.read(self._reading, READ_BYTES).decode().split("\n"))
        os.close(self._reading)
        self._reading = -1

    def wait_ms(self) -> int | None:
        """Milliseconds until the next module, None when all are there."""
        return max(0, self._next_ms - monotonic_ms()) if self._names else None

    def import_next(self) -> None:
        """Import the next module if it is due."""
        if self.wait_ms() != 0:
            return
        while self._names and self._names[0] in sys.modules:
            self._names.popleft()
        if self._names:
            with suppress(ImportError, ValueError):  # a name that the import system made up
                importlib.import_module(self._names.popleft())
        self._next_ms = monotonic_ms() + EVERY_MS
