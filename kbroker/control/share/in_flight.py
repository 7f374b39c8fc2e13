"""The offsets of a shared partition that are in flight: their states, and the changes that are not
written yet. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from kbroker.control.share.acknowledging import NOT_ACQUIRED, Ended
from kbroker.control.share.acquired_end import AcquiredEnd
from kbroker.control.share.acquiring import Offsets, Portion
from kbroker.control.share.portions import NEW, Portions
from kbroker.control.share.ranges import DeliveryState, Range, Ranges
from kbroker.protocol.errors import ErrorCode, KafkaError


class InFlight:
    """The offsets start_offset..end_offset. Owner: a SharePartition.

    portions: their former deliveries. _changed: ranges whose state must be written. _settled_start:
    the start offset before _changed.
    """

    __slots__ = ("_changed", "_settled_start", "end_offset", "portions", "ranges", "start_offset")

    def __init__(self, start_offset: int, stored: Iterable[Range] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self.ranges = Ranges()
        self.portions = Portions()
        self._changed: list[Range] = []
        for each in stored:
            if each.last >= start_offset:
                first = max(each.first, start_offset)
                self.extend(first - 1)  # the state of the offsets between was never written
                self.ranges.put(each.part(first, each.last))
                self.portions.begin(first)
                self.end_offset = each.last
        self.advance()
        self._settled_start = self.start_offset

    def __iter__(self) -> Iterator[Range]:
        return iter(self.ranges)

    def __len__(self) -> int:
        return len(self.ranges)

    def between(self, first: int, last: int) -> Iterator[Range]:
        """The parts of ranges that lie in first..last."""
        return self.ranges.between(max(first, self.start_offset), last)

    def unfinished(self) -> int:
        """The number of offsets that are not finished."""
        return sum(each.last - each.first + 1 for each in self.ranges if not each.state.is_terminal)

    def available(self, read: Sequence[Offsets], acquired_end: AcquiredEnd) -> list[Portion]:
        """The available records of the batches that were read, and those after end_offset."""
        if not read:
            return []
        first, last = read[0][0], read[-1][1]
        free: list[tuple[int, Range]] = []
        for each in self.ranges.between(first, min(last, self.end_offset)):
            if each.is_free:
                free += self._by_portion(each, acquired_end)
        if last > self.end_offset:
            free.append((NEW, Range(max(first, self.end_offset + 1), last, DeliveryState.AVAILABLE, 0)))
        return [
            Portion(self.portions.size(at, self.end_offset), [each for _, each in group])
            for at, group in groupby(free, key=itemgetter(0))
        ]

    def _by_portion(self, free: Range, acquired_end: AcquiredEnd) -> list[tuple[int, Range]]:
        """Available records with the numbers of their portions."""
        if free.delivery_count:
            return self.portions.cut(free, self.end_offset)
        parts: list[tuple[int, Range]] = []
        for each in acquired_end.apart(free):
            rest = acquired_end.is_rest(each.first)
            parts += self.portions.cut(each, self.end_offset) if rest else [(NEW, each)]
        return parts

    def check_held(self, member_id: str, first: int, last: int) -> None:
        """Check that the member has acquired all of the offsets from start_offset on. Raises
        INVALID_REQUEST or INVALID_RECORD_STATE."""
        expected = max(first, self.start_offset)
        if last > self.end_offset >= self.start_offset:
            which = "first" if expected > self.end_offset else "last"
            why = f"The {which} offset in request is past acquired records."
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Batch record not found. {why}")
        for each in self.ranges.between(expected, last):
            if each.first != expected:
                break
            if each.state is not DeliveryState.ACQUIRED:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
            if each.member_id != member_id:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")
            expected = each.last + 1
        if expected <= last:  # nothing is in flight
            why = "The request batch offsets are not found in the cache."
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, f"Batch record not found. {why}")

    # --- changes

    def extend(self, last: int) -> None:
        """Records up to this offset are in flight, too, and available."""
        if last > self.end_offset:
            self.ranges.put(Range(self.end_offset + 1, last, DeliveryState.AVAILABLE, 0))
            self.end_offset = last

    def put(self, new: Range, persisted: bool = True) -> None:
        """Change the state of some offsets. persisted: the change is written to the log, too."""
        self.ranges.put(new)
        self.end_offset = max(self.end_offset, new.last)
        if persisted:
            self._changed.append(new)

    def hold_until(self, deadline_ms: int, available: Iterable[Range]) -> None:
        """No member gets these available records before the deadline; 0: they may be acquired
        now."""
        for each in available:
            part = Range(each.first, each.last, DeliveryState.AVAILABLE, each.delivery_count, "", deadline_ms)
            self.put(part, persisted=False)

    def archive(self, first: int, last: int, states: Iterable[DeliveryState]) -> None:
        """Archive those of the offsets that are in one of these states."""
        for each in list(self.between(first, last)):
            if each.state in states:
                self.put(Range(each.first, each.last, DeliveryState.ARCHIVED, each.delivery_count))
        self.advance()

    def archive_before(self, log_start: int) -> None:
        """Archive the unacknowledged records below a new log start."""
        if log_start <= self.start_offset:
            return
        self.ranges.drop_before(log_start)
        self.start_offset = log_start
        self._settled_start = max(self._settled_start, log_start)
        self.end_offset = max(self.end_offset, log_start - 1)
        self.advance()

    def skip(self, first: int, last: int) -> None:
        """Archive offsets that no member gets."""
        first = max(first, self.start_offset)
        if last > self.end_offset:
            self.extend(first - 1)
            self.put(Range(max(first, self.end_offset + 1), last, DeliveryState.ARCHIVED, 0))
        self.archive(first, last, (DeliveryState.AVAILABLE, DeliveryState.ACQUIRED))

    def advance(self) -> None:
        """Advance the start offset beyond finished records."""
        start = self.start_offset
        for each in self.ranges:
            if each.first > start or not each.state.is_terminal:
                break
            start = each.last + 1
        if start > self.start_offset:
            self.start_offset = start
            self.ranges.drop_before(start)
        self.portions.drop_before(self.start_offset)

    # --- writes

    def take_changes(self) -> tuple[int, list[Range]] | None:
        """(start offset, changed ranges) since the last call; None if nothing has changed. As in
        Kafka, the start offset is the one before these changes: the next changes write the new
        one."""
        start, self._settled_start = self._settled_start, self.start_offset
        changed = [each for each in self._changed if each.last >= start]
        self._changed = []
        return (start, changed) if changed else None

    def undo(self, ended: Sequence[Ended], changed: Iterable[Range]) -> list[Offsets]:
        """Undo changes that could not be written: members hold the records again that they had
        finished, unless the records have changed since. Returns the offsets that are held again."""
        done = [each.after for each in ended if each.after.state.is_terminal]
        start = self.start_offset
        first = min((each.first for each in done), default=start)
        if first < start:
            self.ranges.put(Range(first, start - 1, DeliveryState.ACKNOWLEDGED, 0))  # `is_refilled`
            self.start_offset = first
        for each in done:
            if each.first < start:
                self.ranges.put(each.part(each.first, min(each.last, start - 1)))
                self.portions.begin(each.first)
        held: list[Offsets] = []
        for before, after in ended:
            for each in list(self.ranges.between(before.first, before.last)):
                if each.like(after) or (each.is_refilled and after.state.is_terminal):
                    self.ranges.put(before.part(each.first, each.last))
                    held.append((each.first, each.last))
        undone = {id(each.after) for each in ended}
        self._changed[:0] = [each for each in changed if id(each) not in undone]
        self._settled_start = min(self._settled_start, self.start_offset)
        self.advance()
        return held
