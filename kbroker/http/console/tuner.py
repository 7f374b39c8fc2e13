"""The findings of `kbroker tune check` about this host, the settings and the running broker. The
checks change nothing."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.refusal import unavailable

if TYPE_CHECKING:
    from tuning.live import Live

log = logging.getLogger(__name__)

FRESH_S = 5.0
"""Findings are kept for this long, so that a page that is open many times costs one check."""
DEADLINE_S = 20.0
"""Maximum time that a request waits; the check continues, and a later request gets its findings. A
disk that does not answer delays only the check."""

WATCH_S, KEPT_S = 2.0, 600.0
"""Quantiles are those since the reading of the last check if it is at most so old, else those of
two seconds: the first check waits for these."""

Page = Callable[[Collection[str]], str]


class Checked(Struct, frozen=True):
    """The result of a check. ended_s: monotonic. workload: lines of text. failure: why there are no
    findings, else empty."""

    at_ms: int
    ended_s: float
    workload: tuple[str, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    failure: str = ""


class Readings:
    """The metrics of this broker, with an earlier reading to compare with. page: renders the
    metrics of the given names. Owner: the tuner, which checks one at a time."""

    def __init__(
        self,
        page: Page,
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._page = page
        self._clock_s = clock_s
        self._sleep = sleep
        self._earlier: Live | None = None
        self._earlier_s = 0.0

    def take(self) -> tuple["Live", "Live"]:
        """The metrics now, and the same with the totals since the earlier reading."""
        from tuning.live import SERIES, parse  # imported here: only this page needs it

        if self._earlier is None or self._clock_s() - self._earlier_s > KEPT_S:
            self._earlier, self._earlier_s = parse(self._page(SERIES)), self._clock_s()
            self._sleep(WATCH_S)
        now, now_s = parse(self._page(SERIES)), self._clock_s()
        recent = now.since(self._earlier, now_s - self._earlier_s)
        self._earlier, self._earlier_s = now, now_s
        return now, recent


def check(
    config: BrokerConfig, readings: Readings, offline: Sequence[str]
) -> tuple[Sequence[str], Sequence[Any]]:
    """Lines about the workload, and the findings, the worst first. Raises ValueError, RuntimeError
    if the host cannot be checked."""
    from tuning.check import check as all_findings
    from tuning.gather import gather_inside

    live, recent = readings.take()
    situation, lines = gather_inside(config, live, offline, recent)
    return lines, [
        finding.as_json() | {"now": finding.now_shown, "proposed": finding.proposed_shown}
        for finding in all_findings(situation)
    ]


class Tuner:
    """Runs in: http; each check in a separate thread, one at a time. Owner: the console.
    Thread-safe.

    look: see `check`, for these settings."""

    def __init__(
        self,
        look: Callable[[BrokerConfig], tuple[Sequence[str], Sequence[Any]]],
        clock_s: Callable[[], float] = time.monotonic,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._look = look
        self._clock_s = clock_s
        self._deadline_s = deadline_s
        self._latest: Checked | None = None
        self._running = False
        self._changed = threading.Condition()

    def checked(self, config: BrokerConfig) -> Checked:
        """The last check if it is recent, else a new one. Raises Refusal if it takes too long or
        fails."""
        with self._changed:
            before = self._latest
            if before is None or self._clock_s() - before.ended_s >= FRESH_S:
                self._begin(config)
                if not self._changed.wait_for(lambda: self._latest is not before, self._deadline_s):
                    raise unavailable("the checks of this host take long; ask again later")
            found = self._latest
        assert found is not None
        if found.failure:
            raise unavailable(f"this host cannot be checked: {found.failure}")
        return found

    def _begin(self, config: BrokerConfig) -> None:
        if not self._running:
            self._running = True
            threading.Thread(target=self._run, args=(config,), name="console-tuner", daemon=True).start()

    def _run(self, config: BrokerConfig) -> None:
        at_ms = int(time.time() * 1000)
        try:
            lines, findings = self._look(config)
            made = Checked(at_ms, self._clock_s(), tuple(lines), tuple(findings))
        except Exception as error:
            log.exception("the checks of this host failed")
            made = Checked(at_ms, self._clock_s(), failure=str(error) or type(error).__name__)
        with self._changed:
            self._latest = made
            self._running = False
            self._changed.notify_all()
