"""Timers whose operations wait for their turn: until one begins, its name can still be replaced or
cancelled.

As Kafka's CoordinatorTimerImpl, where a fired task first checks that its key has no newer one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.coordinator.timers import WheelTimers


class Fired(NamedTuple):
    """A timer that has fired, and whose operation has not begun."""

    key: str
    operation: Operation


class OperationTimers:
    """Runs in: control. Owner: a Runtime.

    start: runs an operation of a key in turn with the key's others; the future is done after it, or
    when it cannot begin. A fired timer keeps its name until then: if a heartbeat that was decided
    in between has renewed the session, the expiry that waits must not run.
    """

    def __init__(self, wheel: WheelTimers, start: Callable[[str, Operation], "asyncio.Future[Any]"]) -> None:
        self._wheel = wheel
        self._start = start
        self._fired: dict[str, Fired] = {}

    def schedule(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        """Run an operation of a key after a delay; replaces the timer of that name."""
        self._fired.pop(name, None)
        self._wheel.schedule(name, delay_ms, partial(self._fire, name, key, operation))

    def schedule_if_absent(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        """Like `schedule`, but a timer that runs, or whose operation waits for its turn, stays."""
        if name not in self._wheel and name not in self._fired:
            self.schedule(name, delay_ms, key, operation)

    def renew(self, name: str, delay_ms: int) -> bool:
        """As `schedule` with the timer's own operation; False when it must be scheduled: there is
        no such timer, or it fires later, or its operation waits for its turn."""
        return self._wheel.renew(name, delay_ms)

    def cancel(self, name: str) -> None:
        """Forget a timer."""
        self._fired.pop(name, None)
        self._wheel.cancel(name)

    def postpone(self, name: str, due_ms: int) -> None:
        """Postpone a timer to a CLOCK_MONOTONIC time. A timer that has fired is set again."""
        fired = self._fired.get(name)
        if fired is None:
            self._wheel.postpone(name, due_ms)
        elif (delay_ms := due_ms - self._wheel.now_ms()) > 0:
            self.schedule(name, delay_ms, *fired)

    def _fire(self, name: str, key: str, operation: Operation) -> None:
        fired = self._fired[name] = Fired(key, operation)

        def begin(now_ms: int) -> Outcome:
            return operation(now_ms) if self._forget(name, fired) else Outcome()

        done = self._start(key, begin)
        done.add_done_callback(lambda _: self._forget(name, fired))  # it may have had no partition

    def _forget(self, name: str, fired: Fired) -> bool:
        """False: the name has been replaced or cancelled meanwhile."""
        if self._fired.get(name) is not fired:
            return False
        del self._fired[name]
        return True

    def close(self) -> None:
        """No timer fires any more, and no operation of one begins."""
        self._fired.clear()
        self._wheel.close()
