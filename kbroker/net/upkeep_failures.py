"""Failures of the work that a network process does once a second: logged at the first one, then
once a minute with their number, and when there have been none for a minute."""

import logging
from collections.abc import Callable
from typing import Final

from msgspec import Struct

log = logging.getLogger(__name__)

REPORT_S: Final = 60.0


class _Failures(Struct):
    """Failures of one part of the upkeep. count: since the report at reported_s."""

    last_s: float
    reported_s: float
    count: int = 0


class UpkeepFailures:
    """Runs in: network. Owner: the process's main. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = dict[int, _Failures]()

    def run(self, part: int, step: Callable[[], object]) -> object:
        """The result of a part of the work; None if it fails: no other part, nor the next second,
        depends on it."""
        try:
            result = step()
        except Exception:
            self._failed(part)
            return None
        if part in self._failures:
            self._succeeded(part)
        return result

    def _failed(self, part: int) -> None:
        now = self._clock()
        known = self._failures.get(part)
        if known is None:
            self._failures[part] = _Failures(now, now)
            log.exception("part %d of the upkeep failed", part)
            return
        known.count, known.last_s = known.count + 1, now
        if now - known.reported_s >= REPORT_S:
            log.exception("part %d of the upkeep failed %d more times", part, known.count)
            known.count, known.reported_s = 0, now

    def _succeeded(self, part: int) -> None:
        known = self._failures[part]
        if self._clock() - known.last_s >= REPORT_S:
            del self._failures[part]
            log.warning("part %d of the upkeep works again, after %d more failures", part, known.count)
