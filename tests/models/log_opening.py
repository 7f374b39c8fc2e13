"""Opening of logs, and the clean shutdown marker (kbroker/control/io_workers.py,
kbroker/io/openings.py and logs.py, kbroker/supervisor/supervisor.py).

A log dir holds two logs that a kill may have left torn. Control has the IO worker open each;
opening checks and mends it unless the dir is marked clean. The supervisor marks the dir at a stop.
A worker that is killed leaves its open logs torn; its successor opens them again. The next run of
the broker trusts the mark.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

LOGS = 2
KILLS = 1
RUNS = 2


class OpeningState(NamedTuple):
    """torn: of each log, whether bytes may be at its end that were not acknowledged. opened: by the
    IO worker that runs. failed: could not be opened, without an error of the log dir. first: the
    worker is the first of this run. logs_open: ProcessLine.LOGS_OPEN. marked: the dir holds the
    marker; clean: it did when this run began. served_torn: a torn log was opened without being
    checked."""

    torn: tuple[bool, ...] = (True,) * LOGS
    opened: tuple[bool, ...] = (False,) * LOGS
    failed: tuple[bool, ...] = (False,) * LOGS
    first: bool = True
    logs_open: bool = False
    marked: bool = False
    clean: bool = False
    running: bool = True
    run: int = 1
    kills: int = 0
    errors: int = 0
    served_torn: bool = False


@dataclass(frozen=True)
class OpeningModel:
    """Each flag puts a bug in.

    no_logs_open: the supervisor marks the dir without asking whether all logs were opened.
    unclosed_is_clean: a worker that did not open again what its predecessor had open, or could not
    open a log, ends as if it had closed all, as it did once.
    """

    no_logs_open: bool = False
    unclosed_is_clean: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[OpeningState], bool]]:
        return {
            "no torn log is opened without being checked": lambda s: not s.served_torn,
            "a marked dir has no torn log": lambda s: not s.marked or not any(s.torn),
        }

    def starts(self) -> Iterator[OpeningState]:
        yield OpeningState()
        yield OpeningState(torn=(False,) * LOGS, marked=False, clean=True)

    def is_end(self, s: OpeningState) -> bool:
        return not s.running and s.run == RUNS

    def steps(self, s: OpeningState) -> Iterator[tuple[str, OpeningState]]:
        if not s.running:
            if s.run < RUNS:
                yield (
                    "the broker starts, take_clean_marker",
                    OpeningState(torn=s.torn, clean=s.marked, run=s.run + 1, kills=s.kills, errors=s.errors),
                )
            return
        for n in range(LOGS):
            if not s.opened[n] and not s.failed[n]:
                unchecked = s.clean and s.first
                yield (
                    f"log {n} is opened{', unchecked' if unchecked else ''}",
                    s._replace(
                        opened=_put(s.opened, n, True),
                        torn=s.torn if unchecked else _put(s.torn, n, False),
                        served_torn=s.served_torn or (unchecked and s.torn[n]),
                    ),
                )
                if not s.errors and not unchecked:
                    yield (
                        f"log {n} cannot be opened: no room",
                        s._replace(failed=_put(s.failed, n, True), errors=1),
                    )
        if not s.logs_open and all(o or f for o, f in zip(s.opened, s.failed, strict=True)):
            yield "control: LOGS_OPEN", s._replace(logs_open=True)
        if s.kills < KILLS and any(s.opened):
            torn = tuple(t or o for t, o in zip(s.torn, s.opened, strict=True))
            none = (False,) * LOGS
            yield (
                "the IO worker is killed while it appends, its successor starts",
                s._replace(torn=torn, opened=none, failed=none, first=False, kills=s.kills + 1),
            )
        yield self._stop(s)

    def _stop(self, s: OpeningState) -> tuple[str, OpeningState]:
        """Logs.close_all, then Supervisor._drain."""
        left_torn = any(f or (not s.first and not o) for o, f in zip(s.opened, s.failed, strict=True))
        all_closed = self.unclosed_is_clean or not left_torn
        known = self.no_logs_open or s.logs_open or s.clean
        stopped = s._replace(running=False, marked=all_closed and known)
        return f"the broker stops, {'marked' if stopped.marked else 'not marked'}", stopped


def _put(values: tuple[bool, ...], n: int, value: bool) -> tuple[bool, ...]:
    return (*values[:n], value, *values[n + 1 :])
