"""Opening of logs, and the clean shutdown marker (kbroker/control/io_workers.py,
kbroker/io/openings.py and logs.py, kbroker/supervisor/supervisor.py).

A log dir holds two logs that a kill may have left torn. Control has the IO worker open each;
opening checks and mends it unless the dir is marked clean. The supervisor marks the dir at a stop.
A worker that is killed leaves its open logs torn; its successor opens them again. The next run of
the broker trusts the mark.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

LOGS = 2
KILLS = 1
RUNS = 2
FREE, RECOVERING, ONLINE, OFFLINE = range(4)
"""SlotState: it outlives the worker."""
NONE = (False,) * LOGS

T = TypeVar("T")


class OpeningState(NamedTuple):
    """torn: of each log, whether bytes may be at its end that were not acknowledged. slots:
    Slot.STATE. opened, failed, loading: by the IO worker that runs; failed: there was no room.
    first: the worker is the first of this run. all_open: control knows that all logs were opened,
    or have failed; logs_open: ProcessLine.LOGS_OPEN. marked: the dir holds the marker; clean: it
    did when this run began. served_torn: a torn log was opened without being checked."""

    torn: tuple[bool, ...] = (True,) * LOGS
    slots: tuple[int, ...] = (FREE,) * LOGS
    opened: tuple[bool, ...] = NONE
    failed: tuple[bool, ...] = NONE
    loading: tuple[bool, ...] = NONE
    first: bool = True
    all_open: bool = False
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
    """Each flag adds a bug.

    no_logs_open: the supervisor marks the dir without asking whether all logs were opened.
    unclosed_is_clean: a worker that did not open again what its predecessor had open, or could not
    open a log, ends as if it had closed all, as it did once. offline_is_closed: it does so with the
    logs that its predecessor could not open, as it did later.
    """

    no_logs_open: bool = False
    unclosed_is_clean: bool = False
    offline_is_closed: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[OpeningState], bool]]:
        return {
            "no torn log is opened without being checked": lambda s: not s.served_torn,
            "a marked dir has no torn log": lambda s: not s.marked or not any(s.torn),
        }

    def starts(self) -> Iterator[OpeningState]:
        yield OpeningState()
        yield OpeningState(torn=NONE, clean=True)

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
            yield from self._open(s, n)
        if not s.all_open and all(o or f for o, f in zip(s.opened, s.failed, strict=True)):
            yield "control: IoWorkers, all logs are open", s._replace(all_open=True)
        if s.all_open and not s.logs_open:
            yield "control: LOGS_OPEN", s._replace(logs_open=True)
        if s.kills < KILLS and any(s.opened):
            torn = tuple(t or o for t, o in zip(s.torn, s.opened, strict=True))
            yield (
                "the IO worker is killed while it appends, its successor starts",
                s._replace(torn=torn, opened=NONE, failed=NONE, loading=NONE, first=False, kills=s.kills + 1),
            )
        yield self._stop(s)

    def _open(self, s: OpeningState, n: int) -> Iterator[tuple[str, OpeningState]]:
        unchecked = s.clean and s.first
        opened = s._replace(
            opened=_put(s.opened, n, True),
            slots=_put(s.slots, n, ONLINE),
            loading=_put(s.loading, n, False),
            torn=s.torn if unchecked else _put(s.torn, n, False),
            served_torn=s.served_torn or (unchecked and s.torn[n]),
        )
        if s.loading[n]:
            yield f"log {n} is opened{', unchecked' if unchecked else ''}", opened
            if not s.errors and not unchecked:
                failed = s._replace(
                    failed=_put(s.failed, n, True),
                    slots=_put(s.slots, n, OFFLINE),
                    loading=_put(s.loading, n, False),
                    errors=1,
                )
                yield f"log {n} cannot be opened: no room", failed
        elif not s.opened[n] and not s.failed[n]:
            loading = s._replace(loading=_put(s.loading, n, True), slots=_put(s.slots, n, RECOVERING))
            yield f"log {n} is being loaded", loading
            if unchecked:
                yield f"log {n} is opened as it was closed, unchecked", opened

    def _stop(self, s: OpeningState) -> tuple[str, OpeningState]:
        """Logs.close_all, then Supervisor._drain."""
        missed = (RECOVERING, ONLINE) if self.offline_is_closed else (RECOVERING, ONLINE, OFFLINE)
        left = any(slot in missed and not o for slot, o in zip(s.slots, s.opened, strict=True))
        all_closed = self.unclosed_is_clean or not (any(s.failed) or (left and not s.first))
        known = self.no_logs_open or s.logs_open or s.clean
        stopped = s._replace(running=False, marked=all_closed and known)
        return f"the broker stops, {'marked' if stopped.marked else 'not marked'}", stopped


def _put(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    return (*values[:n], value, *values[n + 1 :])
