"""The state of a shared partition (kbroker/control/share/partitions.py, share_partition.py,
in_flight.py, state_shard.py).

A member holds two records. It accepts or releases each, or the lock of one ends; released records
are acquired again. Each change is taken with a start offset, waits for its turn, and is written.
The append may fail, or time out although the record is in the log; then the change is undone: the
member holds the record again. Control may be killed at any step; its successor has what the log
says.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

RECORDS = 2
CHANGES = 4
FAILURES = 2
KILLS = 1
AVAILABLE, HELD, ACCEPTED = "available", "held", "accepted"

T = TypeVar("T")


class Record(NamedTuple):
    """state: of a record in memory or in the log. deliveries: their number."""

    state: str
    deliveries: int


class Change(NamedTuple):
    """A change of a record, taken to be written. start: the start offset at that time. kind: of the
    acknowledgement; "" at the end of a lock, which nobody waits for."""

    record: int
    kind: str
    start: int
    before: Record
    after: Record


class Written(NamedTuple):
    """What a replay of the log gives: records before the start offset are accepted."""

    start: int
    records: tuple[Record, ...]


class Append(NamedTuple):
    """A decided write on its way. whole: a snapshot, else an update of one record."""

    change: Change
    whole: bool
    content: Written


class ShareState(NamedTuple):
    """records, start, settled: in memory; settled: the start offset of the next change. queue:
    changes that wait for their turn. append: of the one that has it. stored: as the machine has
    replayed it; log: as a successor would. unknown: the log may differ from `stored`. answered: of
    each record the last acknowledgement that was answered."""

    records: tuple[Record, ...] = (Record(HELD, 1),) * RECORDS
    start: int = 0
    settled: int = 0
    queue: tuple[Change, ...] = ()
    append: Append | None = None
    stored: Written = Written(0, (Record(AVAILABLE, 0),) * RECORDS)
    log: Written = Written(0, (Record(AVAILABLE, 0),) * RECORDS)
    unknown: bool = False
    answered: tuple[str, ...] = ("",) * RECORDS
    changes: int = 0
    failures: int = 0
    kills: int = 0


@dataclass(frozen=True)
class ShareModel:
    """Each flag adds a bug.

    start_kept: a change is written with the start offset that it was taken with, although the
    change before it was undone since, as it once was. not_undone: after a failed write the records
    stay as they are. answered_early: an acknowledgement is answered when it is decided.
    """

    start_kept: bool = False
    not_undone: bool = False
    answered_early: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[ShareState], bool]]:
        return {
            "an accepted record is not delivered again": lambda s: all(
                _is_accepted(s.log, n) and s.records[n].state == ACCEPTED
                for n in range(RECORDS)
                if s.answered[n] == ACCEPTED
            ),
            "a released record is delivered again": lambda s: (
                not any(_is_accepted(s.log, n) for n in range(RECORDS) if s.answered[n] == AVAILABLE)
            ),
            "a member that was refused may try again": lambda s: (
                not any(s.records[n].state != HELD for n in range(RECORDS) if s.answered[n] == HELD)
            ),
        }

    def starts(self) -> Iterator[ShareState]:
        yield ShareState()

    def is_end(self, s: ShareState) -> bool:
        return not s.queue and s.append is None

    def steps(self, s: ShareState) -> Iterator[tuple[str, ShareState]]:
        for n, record in enumerate(s.records):
            if record.state == AVAILABLE and s.changes < CHANGES:
                held = _put(s.records, n, Record(HELD, record.deliveries + 1))
                yield (
                    f"record {n}: SharePartition.acquire",
                    s._replace(records=held, answered=_put(s.answered, n, "")),
                )
            if record.state == HELD and s.changes < CHANGES:
                yield f"record {n}: SharePartition.acknowledge, accepted", self._take(s, n, ACCEPTED)
                yield f"record {n}: SharePartition.acknowledge, released", self._take(s, n, AVAILABLE)
                yield f"record {n}: SharePartition.expire", self._take(s, n, "")
        if s.queue and s.append is None:
            yield self._decide(s)
        if s.append is not None:
            yield from self._end(s, s.append)
        if s.kills < KILLS:
            yield "control is killed", _restarted(s)
            if s.append is not None:
                written = s._replace(log=_applied(s.log, s.append))
                yield "control is killed, the write is in the log", _restarted(written)

    def _take(self, s: ShareState, n: int, kind: str) -> ShareState:
        """A member ends a record, or its lock does; `SharePartitions.store` takes the change."""
        before = s.records[n]
        after = Record(kind or AVAILABLE, before.deliveries)
        records = _put(s.records, n, after)
        start = _first_unfinished(records, s.start)
        change = Change(n, kind, s.settled, before, after)
        return s._replace(
            records=records,
            start=start,
            settled=start,
            queue=(*s.queue, change),
            answered=_put(s.answered, n, ""),
            changes=s.changes + 1,
        )

    def _decide(self, s: ShareState) -> tuple[str, ShareState]:
        """In turn: ShareStateShard.write."""
        change, *rest = s.queue
        start = change.start if self.start_kept else min(change.start, s.start)
        changed = _put(s.stored.records, change.record, change.after)
        append = Append(change, s.unknown, Written(start, changed))
        answered = s.answered
        if self.answered_early and change.kind:
            answered = _put(answered, change.record, change.kind)
        how = "snapshot" if s.unknown else "update"
        return (
            f"record {change.record}: ShareStateShard.write, {how} from {start}",
            s._replace(queue=tuple(rest), append=append, unknown=True, answered=answered),
        )

    def _end(self, s: ShareState, append: Append) -> Iterator[tuple[str, ShareState]]:
        change = append.change
        n, left = change.record, s._replace(append=None)
        written = left._replace(log=_applied(s.log, append), stored=_applied(s.stored, append), unknown=False)
        if change.kind and written.records[n] == change.after:
            written = written._replace(answered=_put(s.answered, n, change.kind))
        yield f"record {n}: in the log", written
        if s.failures < FAILURES:
            failed = left._replace(failures=s.failures + 1)
            yield f"record {n}: the append fails", self._undo(failed, change)
            late = failed._replace(log=_applied(s.log, append))
            yield f"record {n}: the append times out, in the log", self._undo(late, change)

    def _undo(self, s: ShareState, change: Change) -> ShareState:
        """InFlight.undo: unless the record has changed since."""
        n = change.record
        if not change.kind or s.records[n] != change.after:
            return s
        answered = _put(s.answered, n, HELD)
        if self.not_undone:
            return s._replace(answered=answered)
        records = _put(s.records, n, change.before)
        start = min(s.start, n)
        return s._replace(records=records, start=start, settled=min(s.settled, start), answered=answered)


def _first_unfinished(records: tuple[Record, ...], start: int) -> int:
    while start < RECORDS and records[start].state == ACCEPTED:
        start += 1
    return start


def _applied(log: Written, append: Append) -> Written:
    """A replay of the record. An update never moves the start offset back."""
    if append.whole:
        return append.content
    n = append.change.record
    return Written(max(log.start, append.content.start), _put(log.records, n, append.change.after))


def _is_accepted(log: Written, n: int) -> bool:
    return n < log.start or log.records[n].state == ACCEPTED


def _restarted(s: ShareState) -> ShareState:
    """What control's successor loads: no member holds a record."""
    records = tuple(
        Record(ACCEPTED if _is_accepted(s.log, n) else AVAILABLE, s.log.records[n].deliveries)
        for n in range(RECORDS)
    )
    start = _first_unfinished(records, s.log.start)
    answered = tuple("" if each == HELD else each for each in s.answered)
    return s._replace(
        records=records, start=start, settled=start, queue=(), append=None, stored=s.log, unknown=False,
        answered=answered, kills=s.kills + 1,
    )  # fmt: skip


def _put(values: tuple[T, ...], n: int, value: T) -> tuple[T, ...]:
    return (*values[:n], value, *values[n + 1 :])
