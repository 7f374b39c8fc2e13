"""The commit cache beside the group machine (kbroker/control/groups/commit_cache/cache.py,
coordinator/runtime.py).

A member commits; another operation deletes the offset, or ends the generation with it (the member
leaves). A commit with a pass is decided by the cache and appended; everything else goes through the
runtime, one operation after the other. Appends complete in any later step; one that meets a log
that is just being opened (NOT_LEADER_OR_FOLLOWER) is submitted again, after others.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

COMMITS = 4
LEAVE, DELETE = 0, -1
NAMES = {LEAVE: "leave", DELETE: "OffsetDelete"}


class Append(NamedTuple):
    """A record on its way. kind: commit or leave. by: the cache; the machine, beside others or in
    turn. generation: that it was decided under."""

    kind: str
    by: str
    generation: int
    number: int


class CacheState(NamedTuple):
    """generation, offset: of the machine, replayed. log: records, in their order. submitted:
    appends in progress. queue: operations that wait for their turn, by number. turn: one has it.
    others: operations that did not come yet. passed: generation of the pass, -1 for none.
    """

    generation: int = 0
    offset: int = 0
    log: tuple[Append, ...] = ()
    submitted: tuple[Append, ...] = ()
    queue: tuple[int, ...] = ()
    turn: bool = False
    passed: int = -1
    commits: int = 0
    others: tuple[int, ...] = (LEAVE, DELETE)
    acknowledged: tuple[int, ...] = ()
    retried: int = 0


@dataclass(frozen=True)
class CommitCacheModel:
    """Each flag puts a bug in.

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
                set(s.acknowledged) <= {each.number for each in s.log if each.kind == "commit"}
            ),
        }

    def starts(self) -> Iterator[CacheState]:
        yield CacheState()

    def is_end(self, s: CacheState) -> bool:
        return s.commits == COMMITS and not s.submitted and not s.queue and not s.turn

    def steps(self, s: CacheState) -> Iterator[tuple[str, CacheState]]:
        if s.commits < COMMITS:
            yield from self._commit(s)
        for other in s.others:
            yield (
                f"{NAMES[other]}: Runtime._leave_fast_path, in turn",
                s._replace(
                    others=tuple(each for each in s.others if each != other),
                    queue=(*s.queue, other),
                    passed=s.passed if self.pass_stays else -1,
                ),
            )
        if s.queue and not s.turn:
            beside = [each.by for each in s.submitted]
            if not beside or (self.no_wait and "beside" not in beside):
                yield from self._operate(s)
        for n, append in enumerate(s.submitted):
            left = s.submitted[:n] + s.submitted[n + 1 :]
            if n == 0:  # an append ring keeps the order of what it takes
                yield from self._written(s._replace(submitted=left), append)
            if not s.retried:
                yield (
                    f"{append.kind} {append.number}: NOT_LEADER_OR_FOLLOWER, submitted again",
                    s._replace(submitted=(*left, append), retried=1),
                )

    def _commit(self, s: CacheState) -> Iterator[tuple[str, CacheState]]:
        number = s.commits + 1
        s = s._replace(commits=number)
        if s.passed >= 0:
            taken = s._replace(submitted=(*s.submitted, Append("commit", "cache", s.passed, number)))
            if self.answered_early:
                taken = taken._replace(acknowledged=(*taken.acknowledged, number))
            yield f"commit {number}: CommitCache.take", taken
        elif s.queue or s.turn:
            yield f"commit {number}: Runtime.ask_concurrently, in turn", s._replace(queue=(*s.queue, number))
        elif s.generation:
            yield f"commit {number}: Runtime.ask_concurrently, refused: the generation has ended", s
        else:
            append = Append("commit", "beside", s.generation, number)
            yield (
                f"commit {number}: Runtime.ask_concurrently, learned",
                s._replace(submitted=(*s.submitted, append), passed=s.generation),
            )

    def _operate(self, s: CacheState) -> Iterator[tuple[str, CacheState]]:
        number, s = s.queue[0], s._replace(queue=s.queue[1:])
        if number in NAMES:
            append = Append(NAMES[number], "machine", s.generation, number)
            yield (
                f"{append.kind}: the machine decides",
                s._replace(turn=True, submitted=(*s.submitted, append)),
            )
        elif s.generation:
            yield f"commit {number}: refused, the generation has ended", s
        else:
            append = Append("commit", "machine", s.generation, number)
            decided = s._replace(turn=True, submitted=(*s.submitted, append))
            if self.learns_early:
                decided = decided._replace(passed=s.generation)
            yield f"commit {number}: the machine decides", decided

    def _written(self, s: CacheState, append: Append) -> Iterator[tuple[str, CacheState]]:
        s = s._replace(log=(*s.log, append), turn=s.turn and append.by != "machine")
        if append.number in NAMES:
            ended = s.generation + (append.number == LEAVE)
            yield f"{append.kind}: in the log, replayed", s._replace(generation=ended, offset=0)
            return
        s = s._replace(offset=append.number, acknowledged=tuple(sorted({*s.acknowledged, append.number})))
        yield f"commit {append.number}: in the log, answered", s


def _in_generation(s: CacheState) -> bool:
    ended = 0
    for each in s.log:
        if each.kind == "commit" and each.generation < ended:
            return False
        ended += each.kind == "leave"
    return True


def _replayed(log: tuple[Append, ...]) -> tuple[int, int]:
    """Generation and offset that a restarted control reads from the log. Both operations remove the
    offset."""
    generation = offset = 0
    for each in log:
        if each.number in NAMES:
            generation, offset = generation + (each.number == LEAVE), 0
        else:
            offset = each.number
    return generation, offset
