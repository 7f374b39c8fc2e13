"""Polling of an IO worker (kbroker.busy.poll.io.us): for some time after its last work it looks
into its rings instead of sleeping, so that an entry waits for no wake-up.

Runs in: io, if the setting is not 0. Its peers find the sleep flag clear meanwhile and write no
eventfd; what comes through a descriptor is taken between two calls of `poll`.
"""

import time
from typing import Final

from kbroker.io.append.drain import Drain
from kbroker.metrics import layout as ml
from kbroker.metrics.slots import bind

TURN_NS: Final = 50_000
"""Maximum time of one call; then timers, control and finished syncs have a turn."""
WITH_REPLICAS_NS: Final = 2_000
"""Maximum time of one call while there are replicas, whose work does not come through a ring."""
GAP_NS: Final = 20_000
"""CPU time between two calls; more of it was other work."""
POLLED = bind("kbroker_polling_seconds_total")


class BusyPoll:
    """Owner: the worker. poll_us: time after the last work."""

    def __init__(self, poll_us: int, drain: Drain) -> None:
        self._poll_ns = poll_us * 1000
        self._drain = drain
        self._words = drain.metrics.words
        self._last_work_ns = 0
        self._ended: tuple[int, int, int] | None = None
        """End of the last call, if it found no entry: time, CPU time of the thread, and the ns that
        were counted as idle."""

    def worked(self) -> None:
        """Note that there was work since the last call of `poll`."""
        self._last_work_ns = time.monotonic_ns()
        self._ended = None

    def continues(self) -> bool:
        """Whether the last work is so recent that the worker polls; else it sleeps."""
        if time.monotonic_ns() - self._last_work_ns < self._poll_ns:
            return True
        self._ended = None
        return False

    def poll(self, with_replicas: bool) -> None:
        """Look for an entry, until there is one or the call's time is over."""
        words = self._words
        began, cpu, idle = self._began()
        found = self._drain.poll(WITH_REPLICAS_NS if with_replicas else TURN_NS)
        ended, ended_cpu = time.monotonic_ns(), time.thread_time_ns()
        words[POLLED] += ended_cpu - cpu
        words[ml.IDLE_NS] += ended - began - idle
        self._ended = None if found else (ended, ended_cpu, int(words[ml.IDLE_NS]))

    def _began(self) -> tuple[int, int, int]:
        """Begin of the polling that counts: time, CPU time, and the ns that already count as
        idle."""
        now, cpu = time.monotonic_ns(), time.thread_time_ns()
        if self._ended is None or cpu - self._ended[1] >= GAP_NS:
            return now, cpu, 0
        ended, ended_cpu, idle = self._ended
        return ended, ended_cpu, int(self._words[ml.IDLE_NS]) - idle
