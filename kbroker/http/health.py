"""Liveness and readiness of the broker, as lists of problems."""

import os
import time
from collections.abc import Callable

from kbroker.config.counts import counted
from kbroker.http.control_view import ControlView
from kbroker.http.process_rows import process_names
from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.ipc.shared import Shared
from kbroker.metrics.slots import bind

HEARTBEAT_LIMIT_S = 15.0
REFUSED = bind("kbroker_produce_refused_partitions")


class Health:
    """Runs in: http. acceptor: the parent's pid."""

    def __init__(
        self,
        shared: Shared,
        view: ControlView,
        acceptor: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        parent: Callable[[], int] = os.getppid,
    ) -> None:
        self._shared = shared
        self._view = view
        self._acceptor = acceptor
        self._clock_ns = clock_ns
        self._parent = parent

    def not_alive(self) -> list[str]:
        """Problems that a restart of the broker might repair, such as a process with a hung
        loop."""
        problems = []
        if self._parent() != self._acceptor:
            problems.append("the acceptor is gone")
        now = self._clock_ns()
        for row, name in self._processes():
            line = self._shared.processes[row]
            beat = int(line[ProcessLine.HEARTBEAT_NS])
            if self._started(row) and beat and (now - beat) / 1e9 > HEARTBEAT_LIMIT_S:
                problems.append(f"{name} has not moved for {(now - beat) / 1e9:.0f} s")
        return problems

    def not_ready(self) -> list[str]:
        """Reasons why clients cannot be served yet, or only in part."""
        problems = self.not_alive()
        problems += [f"{name} is starting" for row, name in self._processes() if not self._started(row)]
        if not self._view.informed.is_set():
            problems.append("no news from control yet")
        states = self._shared.slots[self._view.directory.slots, Slot.STATE]
        if recovering := int((states == SlotState.RECOVERING).sum()):
            problems.append(f"being recovered: {counted(recovering, 'partition')}")
        if refused := int(self._shared.metrics[:, REFUSED].sum()):
            problems.append(f"a disk is full: produce is refused by {counted(refused, 'partition')}")
        return problems

    def _processes(self) -> list[tuple[int, str]]:
        return list(enumerate(process_names(self._shared)[: self._shared.process_count]))

    def _started(self, row: int) -> bool:
        line = self._shared.processes[row]
        return int(line[ProcessLine.READY]) == int(line[ProcessLine.EPOCH]) > 0
