"""A client's end of its history: rows go to a process that encodes and writes them
(loadtest/history_process.py).

So neither encoding nor a slow disk delays the load. The waiting rows are bounded
(loadtest/ring.py); beyond that the client waits, and the delay is visible in its figures.
"""

import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtest.history import KINDS, ROLL_SECONDS
from loadtest.interpreter import RUN_MODULE
from loadtest.ring import Ring, Sender

Columns = dict[str, Any]  # name -> array or list of values, or one value for all rows


class NotWritten(RuntimeError):
    """The history process has ended; its messages are in the client's log."""


class HistoryWriter:
    """All histories of one client. Runs in: the client's process. Owner: the client, which closes
    it."""

    def __init__(self, folder: Path, writer: str, roll_seconds: float = ROLL_SECONDS) -> None:
        self._folder = folder
        self._writer = writer
        self._ring = Ring()
        receives, self._pipe = os.pipe()
        self._sender = Sender(self._ring, self._pipe)
        arguments = [str(folder), writer, str(roll_seconds), str(self._ring.descriptor), str(receives)]
        self._process = subprocess.Popen(
            [*RUN_MODULE, "loadtest.history_process", *arguments], pass_fds=(self._ring.descriptor, receives)
        )
        os.close(receives)
        self._ring.close()

    @property
    def cpu_ns(self) -> int:
        """User + system time of the history process, in ns."""
        return self._ring.cpu_ns

    def add(self, kind: str, rows: Columns | Callable[[], Columns]) -> None:
        """Send rows of a kind, or a function that makes them in the history process (it must be
        picklable). Raises NotWritten."""
        parts: list[bytes | pickle.PickleBuffer] = []
        parts.insert(0, pickle.dumps((kind, rows), protocol=5, buffer_callback=parts.append))
        try:
            self._sender.send(parts, lambda: self._process.poll() is None)
        except BrokenPipeError:
            raise self._gone() from None

    def close(self) -> dict[str, int]:
        """Wait until all rows are written and all files are sealed. Returns the number of files by
        kind. Raises NotWritten."""
        os.close(self._pipe)
        if self._process.wait():
            raise self._gone()
        files = {kind: (self._folder / kind).glob(f"{self._writer}-*.parquet") for kind in KINDS}
        return {kind: sum(1 for _ in found) for kind, found in files.items()}

    def _gone(self) -> NotWritten:
        return NotWritten(f"the history of {self._writer} ended with {self._process.wait()}")
