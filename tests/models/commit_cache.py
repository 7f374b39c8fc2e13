"""The commit cache beside the group machine (kbroker/control/groups/commit_cache/cache.py,
coordinator/runtime.py).

A member commits, each time by another connection; another operation deletes the offset, or the
member leaves, which ends the generation. A commit with a pass is decided by the cache and appended;
everything else goes through the runtime, one operation after the other. Appends of the runtime are
gathered for a turn of the loop. An append fails if a later one is in the log before it, after an IO
worker has refused it (`append_queue.py`), or if it is refused for too long.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

COMMITS = 4
BEFORE = 100
"""The commit that is in the log at the start."""
LEAVE, DELETE = 0, -1
NAMES = {LEAVE: "leave", DELETE: "OffsetDelete"}
FREE, WRITES, ENDS = 0, 1, 2
"""Of the turn: nobody has it; an operation's append is on its way; it is in the log, and the next
turn of the loop frees it."""
TURN_ENDS = "the turn is free"


def label(number: int) -> str:
    """The name of an operation, by its number."""
    return NAMES.get(number) or f"commit {number}"


class Append(NamedTuple):
    """A record on its way. by: the cache; the machine, beside others or in turn. generation: that
    it was decided under. number: of the operation."""

    by: str
    generation: int
    number: int


class CacheState(NamedTuple):
    """generation, offset: of the machine, replayed; offset 0 for none. log: records, in their
    order. gathered: appends that the runtime has not submitted yet. submitted: appends in progress.
    coming: commits that wait for their turn, but do not do so before the loop's next turn. queue:
    operations that wait for their turn, by number. others: operations that did not come yet.
    passed: generation of the pass, -1 for none. refused: appends that failed. blind: an operation
    was decided while commits before it were on their way.
    """

    generation: int = 0
    offset: int = BEFORE
    log: tuple[Append, ...] = (Append("beside", 0, BEFORE),)
    gathered: tuple[Append, ...] = ()
    submitted: tuple[Append, ...] = ()
    coming: tuple[int, ...] = ()
    queue: tuple[int, ...] = ()
    turn: int = FREE
    passed: int = -1
    commits: int = 0
    others: tuple[int, ...] = (LEAVE, DELETE)
    acknowledged: tuple[int, ...] = ()
    refused: int = 0
    blind: bool = False


@dataclass(frozen=True)
class CommitCacheModel:
    """Each flag adds a bug.

    pass_stays: another operation does not forget the passes. no_wait: it does not wait for the
    cache's appends. learns_early: a pass is learned from a commit that had to wait for its turn,
    when others may be pending. answered_early: the cache answers when its append is submitted.
    """

    pass_stays: bool = False
    no_wait: bool = False
    learns_early: bool = False
    answered_early: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[CacheState], bool]]:
        return {
            "no commit of an ended generation is in the log after the record that ended it": _in_generation,
            "the machine has what a replay of the log gives": lambda s: (
                (s.generation, s.offset) == _replayed(s.log)
            ),
            "an acknowledged commit is in the log": lambda s: (
                set(s.acknowledged) <= {each.number for each in s.log}
            ),
            "an operation in turn has seen all commits before it": lambda s: not s.blind,
        }

    def starts(self) -> Iterator[CacheState]:
        yield CacheState()

    def is_end(self, s: CacheState) -> bool:
        on_their_way = s.gathered or s.submitted or s.coming or s.queue or s.turn
        return s.commits == COMMITS and not on_their_way

    def steps(self, s: CacheState) -> Iterator[tuple[str, CacheState]]:
        if s.commits < COMMITS:
            yield self._commit(s)
        for other in s.others:
            left = s._replace(others=tuple(each for each in s.others if each != other))
            yield self._in_turn(left, other)
        if s.coming:
            yield self._in_turn(s._replace(coming=s.coming[1:]), s.coming[0])
        if s.queue and s.turn != WRITES:
            on_their_way = [each.by for each in (*s.gathered, *s.submitted)]
            if not on_their_way or (self.no_wait and "beside" not in on_their_way):
                yield self._operate(s._replace(blind=bool(on_their_way)))
        if s.turn == ENDS and not s.queue:
            yield TURN_ENDS, s._replace(turn=FREE)
        if s.gathered:
            first, *rest = s.gathered
            submitted = s._replace(gathered=tuple(rest), submitted=(*s.submitted, first))
            yield f"{label(first.number)}: Gathering, submitted", submitted
        if s.submitted:  # an append ring keeps the order of what it takes
            first, *rest = s.submitted
            left = s._replace(submitted=tuple(rest), turn=ENDS if first.by == "machine" else s.turn)
            yield self._written(left, first)
            if not s.refused and first.number != LEAVE:  # a classic group is ahead of its record
                failed = left._replace(refused=1)
                yield f"{label(first.number)}: AppendQueue, NOT_LEADER_OR_FOLLOWER", failed

    def _in_turn(self, s: CacheState, number: int) -> tuple[str, CacheState]:
        passed = s.passed if self.pass_stays else -1
        waits = s._replace(queue=(*s.queue, number), passed=passed)
        return f"{label(number)}: Runtime._leave_fast_path, in turn", waits

    def _commit(self, s: CacheState) -> tuple[str, CacheState]:
        number = s.commits + 1
        s = s._replace(commits=number)
        if s.passed >= 0:
            taken = s._replace(submitted=(*s.submitted, Append("cache", s.passed, number)))
            if self.answered_early:
                taken = taken._replace(acknowledged=(*taken.acknowledged, number))
            return f"commit {number}: CommitCache.take", taken
        if s.queue or s.turn:
            return f"commit {number}: Runtime.ask_concurrently, later", s._replace(coming=(*s.coming, number))
        if s.generation:
            return f"commit {number}: Runtime.ask_concurrently, refused: the generation has ended", s
        s = s._replace(gathered=(*s.gathered, Append("beside", s.generation, number)))
        if s.offset:
            return f"commit {number}: Runtime.ask_concurrently, learned", s._replace(passed=s.generation)
        return f"commit {number}: Runtime.ask_concurrently, no row yet", s

    def _operate(self, s: CacheState) -> tuple[str, CacheState]:
        number, s = s.queue[0], s._replace(queue=s.queue[1:], turn=FREE)
        if number == DELETE and not s.offset:
            return "OffsetDelete: the machine decides, nothing to delete", s
        if number not in NAMES and s.generation:
            return f"commit {number}: refused, the generation has ended", s
        append = Append("machine", s.generation, number)
        decided = s._replace(turn=WRITES, gathered=(*s.gathered, append))
        if self.learns_early and number not in NAMES:
            decided = decided._replace(passed=s.generation)
        return f"{label(number)}: the machine decides", decided

    def _written(self, s: CacheState, append: Append) -> tuple[str, CacheState]:
        log = (*s.log, append)
        generation, offset = _after(s.generation, s.offset, append)
        s = s._replace(log=log, generation=generation, offset=offset)
        if append.number in NAMES:
            return f"{label(append.number)}: in the log, replayed", s
        s = s._replace(acknowledged=tuple(sorted({*s.acknowledged, append.number})))
        return f"commit {append.number}: in the log, answered", s


def _in_generation(s: CacheState) -> bool:
    ended = 0
    for each in s.log:
        if each.number not in NAMES and each.generation < ended:
            return False
        ended += each.number == LEAVE
    return True


def _after(generation: int, offset: int, record: Append) -> tuple[int, int]:
    """Generation and offset after the replay of a record."""
    if record.number == LEAVE:
        return generation + 1, offset
    return generation, 0 if record.number == DELETE else record.number


def _replayed(log: tuple[Append, ...]) -> tuple[int, int]:
    """Generation and offset that a restarted control reads from the log."""
    generation = offset = 0
    for each in log:
        generation, offset = _after(generation, offset, each)
    return generation, offset
