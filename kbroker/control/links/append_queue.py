"""Pending appends: those to one partition in their order, and the space of all in control's arena.
Pure: no I/O, no clock.

Several appends may be pushed at a time. If an IO worker refuses one because it restarts, and takes
the next, a retry would put the older records after the newer ones, and a replay would let the older
commit of a group win. So a queue repeats a refused append only while nothing after it is written;
otherwise the append fails, and its client decides.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.protocol.errors import ErrorCode

MAYBE_WRITTEN: Final = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Outcomes of a batch that is in the log, or may be."""
WRITTEN: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Errors of a batch that is in the leader's log, but was not replicated, or on disk, in time."""

Settled = Callable[[int, int], None]
"""Called with the error of an append, 0 for none, and its base offset."""

ALIGN = 64
"""A batch in the arena begins at a multiple of this number of bytes."""


class Append(Struct, eq=False):
    """One batch. deadline_ns: CLOCK_MONOTONIC. refused: how often an IO worker did not have the
    partition. leader: the replica that it was pushed to. outcome: its error and base offset, once
    they are known."""

    batch: bytes
    deadline_ns: int
    settled: Settled
    refused: int = 0
    leader: Replica | None = None
    outcome: tuple[int, int] | None = None


class Ended(NamedTuple):
    """An append that has ended, with its error, 0 for none, and its base offset."""

    append: Append
    error: int
    base_offset: int


class AppendQueue:
    """Runs in: control. Owner: the Appender.

    Appends are pushed and end in the order of `add`. paused: nothing is pushed until `resume`.
    """

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.paused = False
        self._waiting: deque[Append] = deque()
        self._pushed: deque[Append] = deque()
        self._refused: list[Append] = []
        """Refused ones with pushed ones after them, whose outcome is not known."""
        self._retrying = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._pushed) + len(self._refused)

    @property
    def is_waiting(self) -> bool:
        """Whether an append is not pushed."""
        return bool(self._waiting or self._refused)

    def add(self, append: Append) -> None:
        """Put an append at the end."""
        self._waiting.append(append)

    def next(self) -> Append | None:
        """The append to push now; None if there is none. After a refusal only one at a time, until
        one is written: the IO worker may open the partition between two."""
        if not self._waiting or self.paused or (self._retrying and self._pushed):
            return None
        return self._waiting[0]

    def pushed(self) -> None:
        """`next` has been pushed to the leader."""
        append = self._waiting.popleft()
        append.leader = self.partition.leader
        self._pushed.append(append)

    def ended(self, append: Append, error: int, base_offset: int) -> list[Ended]:
        """The outcome of a pushed append is known: the appends that have ended with it, in
        order."""
        append.outcome = error, base_offset
        return self._in_order()

    def abandon(self) -> list[Ended]:
        """Stop waiting for former leaders: one of them may hang, or be dead. Their appends count as
        refused: a record that is only in their logs is cut off."""
        for append in self._pushed:
            if append.outcome is None and append.leader is not self.partition.leader:
                append.outcome = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        return self._in_order()

    def _in_order(self) -> list[Ended]:
        found: list[Ended] = []
        while self._pushed and (outcome := self._pushed[0].outcome) is not None:
            first = self._pushed.popleft()
            error, base_offset = outcome
            if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                first.outcome = None
                first.refused += 1
                self._refused.append(first)
                self._retrying = self.paused = True
                continue
            if error in MAYBE_WRITTEN:
                found += [Ended(each, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) for each in self._refused]
                self._refused.clear()
            self._retrying = bool(self._refused)
            found.append(Ended(first, error, base_offset))
        if not self._pushed:
            self._waiting.extendleft(reversed(self._refused))
            self._refused.clear()
        return found

    def resume(self, now_ns: int) -> list[Ended]:
        """Push again; returns the waiting appends whose deadline has passed. They do not end with
        REQUEST_TIMED_OUT, which is the outcome of a batch that is in the log."""
        self.paused = False
        expired = [each for each in self._waiting if each.deadline_ns <= now_ns]
        if expired:
            self._waiting = deque(each for each in self._waiting if each.deadline_ns > now_ns)
        return [Ended(each, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1) for each in expired]


class Space(Struct, eq=False):
    """Bytes [start, end) of the arena; reusable once it and everything before it are freed."""

    start: int
    end: int
    free: bool = False


class ArenaQueue:
    """Allocated in order, freed in any order.

    Runs in: control. Owner: the Appender.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: deque[Space] = deque()
        self._aside: set[Space] = set()
        self._blocks: list[tuple[int, int]] | None = []
        """The bytes set aside, in order and joined; None: to be listed again."""

    def may_hold(self, length: int) -> bool:
        """Whether this number of bytes fits into the arena when it is empty."""
        return _aligned(length) <= self._size

    def take(self, length: int) -> Space | None:
        """Contiguous bytes, None when there is no room now. ValueError for more than the whole
        arena."""
        if not self.may_hold(length):
            raise ValueError(f"{length} bytes do not fit into an arena of {self._size}")
        length = _aligned(length)
        if not self._taken:
            start = self._fit(0, self._size, length)
        else:
            first, last = self._taken[0], self._taken[-1]
            if last.end > first.start:  # the free part is after the last and before the first
                start = self._fit(last.end, self._size, length)
                if start < 0:
                    start = self._fit(0, first.start - 1, length)
            else:
                start = self._fit(last.end, first.start - 1, length)
        if start < 0:
            return None
        space = Space(start, start + length)
        self._taken.append(space)
        return space

    def _fit(self, start: int, end: int, length: int) -> int:
        """The first place between start and end for `length` bytes, none of them set aside; -1
        without one."""
        if self._blocks is None:
            self._blocks = _joined(self._aside)
        for begin, after in self._blocks:
            if start < after and begin < start + length:
                start = after
        return start if start + length <= end else -1

    def set_aside(self, spaces: Iterable[Space]) -> None:
        """Let the spaces after these be reused before these are freed, which may take hours."""
        if new := set(spaces) - self._aside:
            self._taken = deque(space for space in self._taken if space not in new)
            self._aside |= new
            self._blocks = None
            self._drop_free()

    def claim(self, places: Iterable[tuple[int, int]]) -> deque[Space]:
        """Set places aside, each a start and a length, that a predecessor has filled."""
        spaces = deque(Space(start, start + _aligned(length)) for start, length in places)
        self.set_aside(spaces)
        return spaces

    def give(self, space: Space) -> None:
        """Free a space."""
        space.free = True
        if space in self._aside:
            self._aside.remove(space)
            self._blocks = None
        self._drop_free()

    def _drop_free(self) -> None:
        while self._taken and self._taken[0].free:
            self._taken.popleft()

    def __len__(self) -> int:
        return len(self._taken) + len(self._aside)


def _aligned(length: int) -> int:
    return -(-length // ALIGN) * ALIGN


def _joined(spaces: Iterable[Space]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for space in sorted(spaces, key=lambda each: each.start):
        if found and found[-1][1] == space.start:
            found[-1] = found[-1][0], space.end
        else:
            found.append((space.start, space.end))
    return found
