"""Hung children: found by their heartbeats in shared memory, restarted with a stack in the log.

Runs in: acceptor. Time is counted in checks of a second or two at most, so no child is blamed when
the host was suspended or the parent stopped. A process that was stopped by a signal or waits for a
disk is not stuck either: that it does not move is logged, and when it moves again.
"""

import logging
import os
import signal
from collections.abc import Callable, Iterable

from msgspec import Struct
from numpy import int64
from numpy.typing import NDArray

from kbroker.ipc.child import STACK_SIGNAL
from kbroker.ipc.layout import ProcessLine
from kbroker.supervisor.child import Child

log = logging.getLogger(__name__)

CHECK_MS = 1000
MAX_OF_A_CHECK_MS = 2000
"""Maximum time that one check counts: during a longer pause no process ran."""
STACK_MS = 500
"""Time from the request for a stack to SIGKILL."""
STOPPED, WAITS_FOR_DISK = "Tt", "D"
STILL = dict.fromkeys(STOPPED, "a signal or a debugger has stopped it; SIGCONT continues it") | {
    WAITS_FOR_DISK: "it waits for a disk"
}
"""Reasons why a child that does not move is not restarted, by the state of its process."""


class LastHeartbeat(Struct):
    """The last heartbeat of one child, and the time since then. unchanged_ms: without the time that
    it was stopped or waited for a disk; still_ms: with it. reported: a line says that it is
    still."""

    pid: int = 0
    beat: int = 0
    unchanged_ms: int = 0
    still_ms: int = 0
    reported: bool = False
    kill_at_ms: int = 0


class Watchdog:
    """Owner: the supervisor. limits_ms: how long a child of each role may hang; count: called for
    each child that has hung for longer."""

    def __init__(
        self,
        processes: NDArray[int64],
        limits_ms: dict[str, int],
        count: Callable[[Child], None],
        state_of: Callable[[int], str] | None = None,
    ) -> None:
        self._processes = processes
        self._limits_ms = limits_ms
        self._count = count
        self._state_of = state_of or process_state
        self._heartbeats: dict[int, LastHeartbeat] = {}
        self._checked_ms = 0

    def next_check_ms(self) -> int:
        """The time of the next check (monotonic)."""
        kills = [last.kill_at_ms for last in self._heartbeats.values() if last.kill_at_ms]
        return min(kills, default=self._checked_ms + CHECK_MS)

    def check(self, children: Iterable[Child], now_ms: int) -> None:
        """Request the stacks of hung children; kill children whose stack was requested."""
        if now_ms < self.next_check_ms():
            return
        passed_ms = min(now_ms - self._checked_ms, MAX_OF_A_CHECK_MS) if self._checked_ms else 0
        self._checked_ms = now_ms
        for child in children:
            last = self._heartbeats.setdefault(child.process, LastHeartbeat())
            if last.pid != child.pid:
                last = self._heartbeats[child.process] = LastHeartbeat(child.pid)
            if not child.running:
                continue
            if last.kill_at_ms:
                if now_ms >= last.kill_at_ms:
                    child.signal(signal.SIGKILL)
                continue
            self._check_child(child, last, passed_ms, now_ms)

    def _check_child(self, child: Child, last: LastHeartbeat, passed_ms: int, now_ms: int) -> None:
        line = self._processes[child.process]
        beat = int(line[ProcessLine.HEARTBEAT_NS])
        started = line[ProcessLine.READY] == line[ProcessLine.EPOCH]
        if not started or not beat or beat != last.beat:  # the cleaner has no heartbeat
            if last.reported:
                log.warning("%s moves again, after %d s", child.name, last.still_ms // 1000)
            last.beat, last.unchanged_ms, last.still_ms, last.reported = beat, 0, 0, False
            return
        state = self._state_of(child.pid)
        last.still_ms += passed_ms
        if reason := STILL.get(state):
            self._report_still(child, last, reason)
        if state in STOPPED:
            last.unchanged_ms = 0
        elif state not in WAITS_FOR_DISK:
            last.unchanged_ms += passed_ms
        if last.unchanged_ms < self._limits_ms[child.role.name]:
            return
        log.error(
            "%s has not moved for %d s: its stack follows, then it is restarted",
            child.name,
            last.unchanged_ms // 1000,
        )
        child.stuck = True
        child.signal(STACK_SIGNAL)
        last.kill_at_ms = now_ms + STACK_MS
        self._count(child)

    def _report_still(self, child: Child, last: LastHeartbeat, reason: str) -> None:
        """Log once that a child does not move, and why it is not restarted."""
        if not last.reported and last.still_ms >= self._limits_ms[child.role.name]:
            last.reported = True
            log.warning("%s has not moved for %d s: %s", child.name, last.still_ms // 1000, reason)


def process_state(pid: int) -> str:
    """The kernel's letter for a process's state; R if it cannot be read. It waits for a disk if any
    of its threads does: its loop may wait for that thread. Not by psutil: the process that forks
    all others would have to import it."""
    own = _state(f"/proc/{pid}/stat")
    if own in STOPPED:
        return own
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 as short as it gets
    except OSError:
        return own
    if any(_state(f"/proc/{pid}/task/{thread}/stat") in WAITS_FOR_DISK for thread in threads):
        return WAITS_FOR_DISK
    return own


def _state(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "R"
