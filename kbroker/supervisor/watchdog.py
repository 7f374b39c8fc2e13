"""Hung children: found by their heartbeats in shared memory, restarted with a stack in the log.

Runs in: acceptor. Time is counted in looks of a second or two at most, so no child is blamed when
the host was suspended or the parent stopped. A process that was stopped by a signal or waits for a
disk is not stuck either.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from numpy import int64
from numpy.typing import NDArray

from kbroker.ipc.child import STACK_SIGNAL
from kbroker.ipc.layout import ProcessLine
from kbroker.supervisor.child import SIGKILL, Child

log = logging.getLogger(__name__)

LOOK_MS = 1000
MAX_OF_A_LOOK_MS = 2000
"""Maximum time that one look counts: during a longer pause no process ran."""
STACK_MS = 500
"""Time from the request for a stack to SIGKILL."""
STOPPED, WAITS_FOR_DISK = "Tt", "D"


@dataclass(slots=True)
class Seen:
    """The last heartbeat of one child, and the time since then."""

    pid: int = 0
    beat: int = 0
    still_ms: int = 0
    doomed_at_ms: int = 0


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
        self._seen: dict[int, Seen] = {}
        self._looked_ms = 0

    def next_look_ms(self) -> int:
        """The time of the next look (monotonic)."""
        doomed = [seen.doomed_at_ms for seen in self._seen.values() if seen.doomed_at_ms]
        return min(doomed, default=self._looked_ms + LOOK_MS)

    def look(self, children: Iterable[Child], now_ms: int) -> None:
        """Request the stacks of hung children; kill children whose stack was requested."""
        if now_ms < self.next_look_ms():
            return
        passed_ms = min(now_ms - self._looked_ms, MAX_OF_A_LOOK_MS) if self._looked_ms else 0
        self._looked_ms = now_ms
        for child in children:
            seen = self._seen.setdefault(child.process, Seen())
            if seen.pid != child.pid:
                seen = self._seen[child.process] = Seen(child.pid)
            if not child.running:
                continue
            if seen.doomed_at_ms:
                if now_ms >= seen.doomed_at_ms:
                    child.signal(SIGKILL)
                continue
            self._look_at(child, seen, passed_ms, now_ms)

    def _look_at(self, child: Child, seen: Seen, passed_ms: int, now_ms: int) -> None:
        line = self._processes[child.process]
        beat = int(line[ProcessLine.HEARTBEAT_NS])
        started = line[ProcessLine.READY] == line[ProcessLine.EPOCH]
        if not started or not beat or beat != seen.beat:  # the cleaner has no heartbeat
            seen.beat, seen.still_ms = beat, 0
            return
        state = self._state_of(child.pid)
        if state in STOPPED:
            seen.still_ms = 0
        elif state not in WAITS_FOR_DISK:
            seen.still_ms += passed_ms
        if seen.still_ms < self._limits_ms[child.role.name]:
            return
        log.error(
            "%s has not moved for %d s: its stack follows, then it is restarted",
            child.name,
            seen.still_ms // 1000,
        )
        child.stuck = True
        child.signal(STACK_SIGNAL)
        seen.doomed_at_ms = now_ms + STACK_MS
        self._count(child)


def process_state(pid: int) -> str:
    """The kernel's letter for a process's state; R if it cannot be read. Not by psutil: the process
    that forks all others would have to import it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "R"
