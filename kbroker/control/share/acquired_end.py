"""The offset that the members of a share group have reached in a partition (the end offset of
Kafka's SharePartition). Pure."""

from collections.abc import Sequence
from itertools import pairwise

from kbroker.control.share.acquiring import Offsets
from kbroker.control.share.ranges import Range


class AcquiredEnd:
    """offset: the last one that a member has had, or that is in flight with it. Owner: a
    SharePartition.

    A strict fetch cuts a batch. As in Kafka, the rest of the batch is then in flight with its
    beginning: it needs no room, and is acquired apart from later batches.
    """

    __slots__ = ("_rest", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._rest: Offsets | None = None

    def advance(self, last: int, cut: Sequence[Offsets]) -> Offsets | None:
        """New records were acquired up to an offset. cut: the batches that may have been cut;
        returns the rest of one, if there is any."""
        self.offset = next((end for first, end in cut if first <= last <= end), last)
        self._rest = (last + 1, self.offset) if self.offset > last else None
        return self._rest

    def is_rest(self, offset: int) -> bool:
        return self._rest is not None and self._rest[0] <= offset <= self._rest[1]

    def apart(self, free: Range) -> list[Range]:
        """A range of records that no member has had, the rest of a cut batch apart."""
        if self._rest is None:
            return [free]
        first, last = self._rest
        inside = (min(max(bound, free.first), free.last + 1) for bound in (first, last + 1))
        cuts = sorted({free.first, *inside, free.last + 1})
        return [free.part(begin, end - 1) for begin, end in pairwise(cuts)]
