"""Timers of coordinators: names on a timing wheel, driven by calls of the loop, without
polling."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from kbroker.ipc.clock import monotonic_ms
from kbroker.purgatory.timing_wheel import TimerEntry, TimingWheel

log = logging.getLogger(__name__)

MOVED_IN_A_TURN: Final = 256
IN_A_TURN: Final = 32
"""Timers that fire in one turn of the loop. Clients choose the times of their sessions: very many
may end in the same millisecond."""


class NamedTimer(TimerEntry):
    """A timer and its callback. due_ms: at or after expiry_ms, the time of its place in the
    wheel."""

    __slots__ = ("action", "due_ms", "name")

    def __init__(self, expiry_ms: int, name: str, action: Callable[[], None]) -> None:
        super().__init__(expiry_ms)
        self.due_ms = expiry_ms
        self.name = name
        self.action = action


class WheelTimers:
    """Runs in: control. Owner: a Runtime. Times are CLOCK_MONOTONIC, so a set clock does not fire
    them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock_ms: Callable[[], int] = monotonic_ms) -> None:
        self._loop = loop
        self._clock_ms = clock_ms
        self._wheel = TimingWheel(self._clock_ms())
        self._timers: dict[str, NamedTimer] = {}
        self._due: deque[NamedTimer] = deque()  # they have left the wheel and fire in the next turns
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ms = 0
        self.before_advance: Callable[[], None] | None = None  # it may still postpone timers

    def schedule(self, name: str, delay_ms: int, action: Callable[[], None]) -> None:
        """Run the action after delay_ms; replaces a timer of the same name.

        A timer that is only postponed, as a session by each heartbeat, stays in its place until the
        wheel reaches it.
        """
        due_ms = self._clock_ms() + delay_ms
        known = self._timers.get(name)
        if known is not None:
            if known.expiry_ms <= due_ms:
                known.due_ms, known.action = due_ms, action
                return
            self._wheel.cancel(known)
        timer = NamedTimer(due_ms, name, action)
        self._timers[name] = timer
        self._wheel.add(timer)
        self._arm()

    def renew(self, name: str, delay_ms: int) -> bool:
        """As `schedule` with the timer's own action; False when there is no such timer, or one that
        fires later."""
        timer, due_ms = self._timers.get(name), self._clock_ms() + delay_ms
        if timer is None or timer.expiry_ms > due_ms:
            return False
        timer.due_ms = due_ms
        return True

    def postpone(self, name: str, due_ms: int) -> None:
        """Let a timer fire no earlier than at a time of the clock; nothing when there is none."""
        timer = self._timers.get(name)
        if timer is not None and timer.due_ms < due_ms:
            timer.due_ms = due_ms

    def cancel(self, name: str) -> None:
        """Forget a timer; nothing when there is none."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            self._wheel.cancel(timer)

    def now_ms(self) -> int:
        """The time of the clock."""
        return self._clock_ms()

    def advance(self) -> None:
        """Run the timers that are due, some of them in each turn of the loop."""
        self._wake = None
        if self.before_advance is not None:
            self.before_advance()
        now_ms = self._clock_ms()
        for entry in self._wheel.advance(now_ms, MOVED_IN_A_TURN):
            assert isinstance(entry, NamedTimer)
            self._due.append(entry)
        for _ in range(min(IN_A_TURN, len(self._due))):
            timer = self._due.popleft()
            if self._timers.get(timer.name) is not timer:
                continue
            if timer.due_ms > now_ms:
                self._wheel.reschedule(timer, timer.due_ms)
                continue
            del self._timers[timer.name]
            try:
                timer.action()
            except Exception:  # others that are due have left the wheel already
                log.exception("timer %s failed", timer.name)
        self._arm()

    def _arm(self) -> None:
        due_ms = self._clock_ms() if self._due else self._wheel.next_expiry_ms()
        if due_ms is None:
            return
        if self._wake is not None:
            if self._wake_ms <= due_ms:
                return
            self._wake.cancel()
        self._wake_ms = due_ms
        self._wake = self._loop.call_later(max(0, due_ms - self._clock_ms()) / 1000, self.advance)

    def close(self) -> None:
        """No timer fires any more."""
        if self._wake is not None:
            self._wake.cancel()
        self._timers.clear()
        self._due.clear()
        self._wheel = TimingWheel(self._clock_ms())

    def __contains__(self, name: str) -> bool:
        return name in self._timers

    def __len__(self) -> int:
        return len(self._timers)
