"""Failpoints: places in the middle of a request where a test makes control die, as by kill -9, or
hang.

The whole broker dies at the crash points of `ipc/crash_point.py` instead. The environment variable
names a file; while that contains ``<place> <n>``, control kills itself when it reaches the place
for the n-th time, and removes the file first; with ``<place> <n> hang`` it loops without end. Only
tests set the variable.

Places: ``pushed`` (records were passed to an IO worker), ``appended`` (they are in the log, no
answer was sent), ``stored`` (the store has committed a change), ``switched`` (appends are paused
for the switch to another log dir), ``answering-<API key>`` (the answer is built, not sent).
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "KBROKER_FAILPOINT"
_FILE: Final = Path(path) if (path := os.environ.get(VARIABLE)) else None
ARMED: Final = _FILE is not None
"""Whether a test has set the variable. Code that runs for every commit checks this, and calls
nothing."""
_seen: dict[str, int] = {}


def reach(place: str) -> None:
    """Control has reached the place."""
    if _FILE is not None:
        _check(_FILE, place)


def _check(file: Path, place: str) -> None:
    with suppress(FileNotFoundError, ValueError):
        armed, count, *how = file.read_text().split()
        if armed != place:
            return
        _seen[place] = _seen.get(place, 0) + 1
        if _seen[place] >= int(count):
            file.unlink()
            while how:
                pass
            os.kill(os.getpid(), signal.SIGKILL)
