"""Children that tests fork: none continues the tests of its parent, and none outlives its own
test, whose output it would hold open."""

import gc
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

STACKS_S: Final = 3.0
MANY_OBJECTS: Final = 100_000
"""Searched for garbage in some 70 ms, before a fork and once more in the child."""


def exit_code(pid: int, within_s: float = 120.0) -> int:
    """Of a child, which is killed when it takes longer; that of a signal is negative."""
    watched = os.pidfd_open(pid)
    try:
        end = select.poll()
        end.register(watched, select.POLLIN)
        end.poll(within_s * 1000)
    finally:
        os.close(watched)
        os.kill(pid, signal.SIGKILL)  # nothing to a child that has ended
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code


def fork() -> int:
    """As os.fork, but the garbage of earlier tests is gone before. A child collects it, too, and
    waits forever where a finalizer needs threads, which a child has not: those of a client
    library end its connections. The broker forks from a process without threads and garbage.

    Many objects that are alive mostly belong to modules: later searches leave them out, as they
    took half a second for each fork of a long run."""
    gc.collect()
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.freeze()
    return os.fork()


def wait_until(met: Callable[[], object], pid: int, stacks: int = 0, within_s: float = 120.0) -> None:
    """Wait for something that a child does, which must not end before. stacks: a signal on which it
    writes the stacks of its threads, for when it takes longer."""
    deadline = time.monotonic() + within_s
    while not met():
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None and time.monotonic() < deadline:
            time.sleep(0.002)
            continue
        if ended is None:
            os.kill(pid, stacks)
            time.sleep(STACKS_S if stacks else 0)
        raise AssertionError("the child takes too long" if ended is None else f"the child has ended: {ended}")


class ForkedChild:
    """Runs a function: exit code 0 when it returns, 1 when it raises. To be used with `with`, which
    kills a child that has not ended."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._code: int | None = None
        self.pid = fork()
        if self.pid == 0:
            code = 1
            try:
                function()
                code = 0
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)

    def wait(self, within_s: float = 120.0) -> int:
        """As `exit_code`."""
        if self._code is None:
            self._code = exit_code(self.pid, within_s)
        return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(0)


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a child has a handler of a signal: before that the signal ends it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = (line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(mask, 16) & 1 << number - 1)
