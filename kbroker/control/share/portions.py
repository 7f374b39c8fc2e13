"""Groups of records of a shared partition that were first delivered together. Pure."""

from bisect import bisect_left, bisect_right

from kbroker.control.share.ranges import Range

NEW = -1
"""Stands for a portion's number: records that were never delivered."""


class Portions:
    """The first offsets of portions, in order. Owner: a SharePartition's InFlight.

    end_offset: the last offset in flight, where the last portion ends.
    """

    __slots__ = ("_starts",)

    def __init__(self) -> None:
        self._starts: list[int] = []

    def begin(self, first: int) -> None:
        """A portion begins at this offset."""
        at = bisect_left(self._starts, first)
        if self._starts[at : at + 1] != [first]:
            self._starts.insert(at, first)

    def cut(self, free: Range, end_offset: int) -> list[tuple[int, Range]]:
        """A range cut where records were not given together, with the numbers of their portions."""
        parts: list[tuple[int, Range]] = []
        first = free.first
        while first <= free.last:
            at = max(0, bisect_right(self._starts, first) - 1)
            last = min(free.last, max(first, self._end(at, end_offset)))
            parts.append((at, free.part(first, last)))
            first = last + 1
        return parts

    def size(self, at: int, end_offset: int) -> int:
        """The number of records of a portion; 0 for new records."""
        return 0 if at == NEW else self._end(at, end_offset) - self._starts[at] + 1

    def _end(self, at: int, end_offset: int) -> int:
        return self._starts[at + 1] - 1 if at + 1 < len(self._starts) else end_offset

    def drop_before(self, offset: int) -> None:
        """Forget the portions that end below an offset."""
        del self._starts[: max(0, bisect_right(self._starts, offset) - 1)]
