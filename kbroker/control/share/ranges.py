"""Delivery states of ranges of offsets: a sorted list of ranges that never overlap."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import IntEnum

from msgspec import Struct

MAX_DELIVERIES = 2**15 - 1
"""A delivery count has 16 bits in answers and in the written state: it stays at its largest."""


class DeliveryState(IntEnum):
    """Values as in the records of the share state. ARCHIVING: until the dead letter is in its log;
    never written here, Apache Kafka writes it from 4.4 on."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


class Range(Struct):
    """Offsets first..last, all in one state. member_id is of acquired ones, deadline_ms of those
    and of available ones that are not delivered before it: by the wall clock of new ones, which
    wait for a time that a record names, else by CLOCK_MONOTONIC."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int
    member_id: str = ""
    deadline_ms: int = 0

    @property
    def is_free(self) -> bool:
        """Whether a member may acquire the offsets now."""
        return self.state is DeliveryState.AVAILABLE and not self.deadline_ms

    @property
    def is_new(self) -> bool:
        """Whether the offsets are available and no member has had them."""
        return self.state is DeliveryState.AVAILABLE and not self.delivery_count

    @property
    def is_refilled(self) -> bool:
        """Whether the offsets were finished and dropped, and are here again because the changes of
        earlier ones were undone: how often they were delivered is not known any more."""
        return self.state is DeliveryState.ACKNOWLEDGED and not self.delivery_count

    def part(self, first: int, last: int) -> "Range":
        """A range of some of the offsets, in the same state."""
        return Range(first, last, self.state, self.delivery_count, self.member_id, self.deadline_ms)

    def like(self, other: "Range") -> bool:
        """Whether both can be merged into one range."""
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
        )


def finished_in(ranges: Iterable[Range]) -> int:
    """The number of finished records."""
    return sum(each.last - each.first + 1 for each in ranges if each.state.is_terminal)


class Ranges:
    """Ranges in order. Owner: a SharePartition's InFlight, or the stored state of one.

    finished: the number of finished records, counted with each change: a state may have very many
    ranges.
    """

    __slots__ = ("_firsts", "_ranges", "finished")

    def __init__(self) -> None:
        self._ranges: list[Range] = []
        self._firsts: list[int] = []
        self.finished = 0

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    @property
    def last_offset(self) -> int:
        """The last offset with a state, -1 when there is none."""
        return self._ranges[-1].last if self._ranges else -1

    def between(self, first: int, last: int) -> Iterator[Range]:
        """The parts of ranges that lie in first..last; copies where a range is cut."""
        for index in range(self._at(first), len(self._ranges)):
            each = self._ranges[index]
            if each.first > last:
                return
            if each.last >= first:
                inside = first <= each.first and each.last <= last
                yield each if inside else each.part(max(first, each.first), min(last, each.last))

    def put(self, new: Range) -> None:
        """Set the state of new.first..new.last, whatever it was; neighbours in the same state
        become one range."""
        start = self._at(new.first)
        if start and self._ranges[start - 1].last == new.first - 1:
            start -= 1
        end = start
        while end < len(self._ranges) and self._ranges[end].first <= new.last + 1:
            end += 1
        touched = self._ranges[start:end]
        before = [
            each.part(each.first, min(each.last, new.first - 1)) for each in touched if each.first < new.first
        ]
        after = [
            each.part(max(each.first, new.last + 1), each.last) for each in touched if each.last > new.last
        ]
        merged: list[Range] = []
        for each in (*before, new, *after):
            if merged and merged[-1].last + 1 == each.first and merged[-1].like(each):
                merged[-1] = merged[-1].part(merged[-1].first, each.last)
            else:
                merged.append(each)
        self.finished += finished_in(merged) - finished_in(touched)
        self._ranges[start:end] = merged
        self._firsts[start:end] = [each.first for each in merged]

    def drop_before(self, offset: int) -> None:
        """Forget everything below an offset."""
        while self._ranges and self._ranges[0].first < offset:
            each = self._ranges[0]
            if each.state.is_terminal:
                self.finished -= min(each.last, offset - 1) - each.first + 1
            if each.last < offset:
                del self._ranges[0], self._firsts[0]
            else:
                self._ranges[0] = each.part(offset, each.last)
                self._firsts[0] = offset

    def _at(self, offset: int) -> int:
        """Index of the range that holds the offset, else of the next one."""
        index = bisect_right(self._firsts, offset) - 1
        return index if index >= 0 and self._ranges[index].last >= offset else index + 1
