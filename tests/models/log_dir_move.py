"""The switch of a log to another log dir (kbroker/control/changes/log_dir_moves.py,
kbroker/io/log_dirs/moves.py).

The IO worker completes the copy while appends are paused. Control stores the new log dir, which
decides the move, and the worker continues there. The worker and control may each be killed at any
step. A worker that starts opens the log in the log dir that control sends; a control process that
starts sends every worker the stored log dirs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

OLD, NEW = 0, 1
RECORDS = 2
KILLS = 2


class MoveState(NamedTuple):
    """old, new: records in the log and in its copy. dir: in which the worker has the log open, -1
    for none. paused: appends are paused. incarnation: of the worker. stored: the log dir in the
    store; believed: in control's memory. switching: what control does next in its `_switch`;
    greeting: the incarnation that it began with; storing: the store is being written. opening: an
    OpenPartition call with a log dir is on its way, -1 for none."""

    old: int = 0
    new: int = 0
    dir: int = OLD
    paused: bool = False
    incarnation: int = 0
    stored: int = OLD
    believed: int = OLD
    switching: str = "begin"
    greeting: int = 0
    opening: int = -1
    acknowledged: int = 0
    kills: int = 0
    lost: bool = False


@dataclass(frozen=True)
class MoveModel:
    """Each flag adds a bug. not_greeted: control stores the new log dir although the worker that
    completed the copy has died. not_decided: a worker that starts opens the log while the new log
    dir is being stored. not_reopened: a worker that has completed the copy ignores the log dir that
    a restarted control sends. not_held_off: appends continue while the copy is completed and
    stored. while_opened: control switches a log although its OpenPartition call, with the log dir
    of before, is on its way (an earlier bug: after a takeover).
    """

    not_greeted: bool = False
    not_decided: bool = False
    not_reopened: bool = False
    not_held_off: bool = False
    while_opened: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[MoveState], bool]]:
        return {"the log that is open has every acknowledged record": lambda s: not s.lost}

    def starts(self) -> Iterator[MoveState]:
        yield MoveState()

    def is_end(self, s: MoveState) -> bool:
        return s.acknowledged == RECORDS and s.dir == s.stored == NEW and not s.paused

    def steps(self, s: MoveState) -> Iterator[tuple[str, MoveState]]:
        yield from self._work(s)
        yield from self._control(s)
        if s.kills < KILLS:
            dead = s._replace(
                dir=-1, paused=False, opening=-1, incarnation=s.incarnation + 1, kills=s.kills + 1
            )
            yield "the IO worker is killed, its successor greets", dead
            # what is in the store may be there or not, when control dies while it writes
            for stored in {s.stored, NEW} if s.switching == "storing" else {s.stored}:
                yield (
                    f"control is killed, stored: {stored}",
                    s._replace(
                        stored=stored,
                        believed=stored,
                        switching="begin",
                        opening=-1 if s.dir < 0 else stored,
                        kills=s.kills + 1,
                    ),
                )

    # --- the IO worker -------------------------------------------------------------------------------------

    def _work(self, s: MoveState) -> Iterator[tuple[str, MoveState]]:
        if s.dir >= 0 and not s.paused and s.acknowledged < RECORDS:
            records = s.acknowledged + 1
            grown = s._replace(old=records) if s.dir == OLD else s._replace(new=records)
            yield f"append record {records}, acknowledged", grown._replace(acknowledged=records)
        if s.dir < 0 and s.opening < 0 and (self.not_decided or s.switching != "storing"):
            yield f"greet: decided, OpenPartition in dir {s.believed}", s._replace(opening=s.believed)
        if s.opening >= 0:
            if s.dir < 0:
                yield f"Logs.open in dir {s.opening}", _opened(s._replace(opening=-1), s.opening)
            else:
                yield from self._reopened(s._replace(opening=-1), s.opening)

    def _reopened(self, s: MoveState, log_dir: int) -> Iterator[tuple[str, MoveState]]:
        if not s.paused or self.not_reopened:
            yield "OpenPartition: the log is open", s
        elif log_dir == NEW:
            yield "Moves.reopened: finish", _opened(s, NEW)
        else:
            yield "Moves.reopened: resume, copy on", s._replace(paused=False)

    # --- control -------------------------------------------------------------------------------------------

    def _control(self, s: MoveState) -> Iterator[tuple[str, MoveState]]:
        may = s.opening < 0 or self.while_opened
        if s.switching == "begin" and s.believed == OLD and s.dir == OLD and may:
            switched = s._replace(
                new=s.old, paused=not self.not_held_off, switching="switched", greeting=s.incarnation
            )
            yield "SwitchMove: Moves.switch, the copy is complete", switched
        elif s.switching == "switched":
            if s.greeting != s.incarnation and not self.not_greeted:
                yield "LogDirMoves._store: the worker is another one", s._replace(switching="begin")
                yield "LogDirMoves._switch: the link has ended", s._replace(switching="begin")
            else:
                yield "LogDirMoves._store begins", s._replace(switching="storing")
        elif s.switching == "storing":
            yield "LogDirMoves._store ends", s._replace(stored=NEW, believed=NEW, switching="finish")
        elif s.switching == "finish":
            after = s._replace(switching="done")
            if s.greeting != s.incarnation:
                yield "FinishMove: to a worker that opens its logs", after
            else:
                yield "FinishMove: Moves.finish", _opened(after, NEW)


def _opened(s: MoveState, log_dir: int) -> MoveState:
    """The log continues in a log dir. A folder in the other log dir, if any, is renamed for
    deletion, or is an unfinished copy that starts again."""
    records = s.old if log_dir == OLD else s.new
    return s._replace(dir=log_dir, paused=False, lost=s.lost or records < s.acknowledged)
