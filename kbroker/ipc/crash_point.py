"""Crash points: named places where a test kills the whole broker, as by kill -9, in the middle of
its work. Control has failpoints besides, where it dies or hangs (`control/failpoint.py`).

``KBROKER_CRASH_AT=<name>:<n>`` in the environment of `kbroker serve`: when a process reaches that place for
the n-th time (from 1), it kills the parent and itself; the kernel kills the other children. The
variable is read once, when this module is imported. Without it a crash point is a call of an empty
function. None is inside the append path: those of appends are around the whole drain call, and only
wrapped there when armed.
"""

import os
import signal

POINTS = (
    "append: before the write",
    "append: written and answered",
    "marker: in the log, transaction open",
    "index: last time entry written",
    "index: .log and .index cut",
    "roll: old segment finished",
    "roll: new files created",
    "roll: snapshot written",
    "snapshot: half written",
    "sync: closed segments",
    "sync: done, not published",
    "checkpoint: temporary file written",
    "checkpoint: renamed",
    "leader change: epoch stored",
    "leader change: epoch in the log dir",
    "leader change: decision stored",
    "leader change: leader confirmed",
    "retention: log start advanced",
    "retention: file renamed",
    "retention: file removed",
    "delete records: log start advanced",
    "delete topic: folder renamed",
    "truncate: segments deleted",
    "truncate: cut",
    "truncate: epochs written",
    "recovery: leftovers cleared",
    "recovery: segment scanned",
    "recovery: epochs written",
    "recovery: producers replayed",
    "move: folder made",
    "move: copy complete",
    "move: copy renamed",
    "move: continues",
    "compaction: step of the cleaner",
    "compaction: step of the swap",
    "store: one copy written",
    "store: write-ahead log out of the way",
    "registry: written, not answered",
)
VARIABLE = "KBROKER_CRASH_AT"


def _parse(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if name not in POINTS:
        raise ValueError(f"{VARIABLE}={text}: no such place")
    return name, int(count)


NAME, _left = _parse(os.environ[VARIABLE]) if VARIABLE in os.environ else ("", 0)


def is_armed(*names: str) -> bool:
    """Whether one of these places is armed."""
    return NAME in names


def _count(name: str) -> None:
    global _left
    if name != NAME:
        assert name in POINTS, name
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _nothing(_: str) -> None:
    pass


crash_point = _count if NAME else _nothing
"""Called at each place with its name."""
