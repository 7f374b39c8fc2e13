"""One partition in one share group: available, acquired and finished records (Kafka's
SharePartition).

The offsets start_offset..end_offset are in flight. All records before them are finished, all
records after them are available. A member acquires records under a lock that expires, and accepts,
releases or rejects them.

Released records of a group with a pause (`Limits.retry_at`), and records of a topic with a delay,
have a deadline before which no member gets them. Delayed records do not count as in flight, or many
of them would block the rest. If a group has a dead-letter topic, an archived record is finished
when its dead letter is written (KIP-1191).
"""

from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from kbroker.control.share.acknowledging import (
    NOT_ACQUIRED,
    AcknowledgedBatch,
    AcknowledgeType,
    Ended,
    check_held,
    range_after,
    specs_of,
)
from kbroker.control.share.acquired_end import AcquiredEnd
from kbroker.control.share.acquiring import Offsets, Portion, Spec, choose
from kbroker.control.share.dead_offsets import EXCEEDED, REJECTED, Dead, DeadOffsets
from kbroker.control.share.limits import Limits
from kbroker.control.share.portions import NEW, Portions
from kbroker.control.share.ranges import MAX_DELIVERIES, DeliveryState, Range, Ranges
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import in_order, paced

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
ARCHIVING = DeliveryState.ARCHIVING

MAX_RANGES = 5000
"""Maximum ranges in flight in a partition with delays; above it new records wait, because each
range is part of the written state."""

_NO_RENEWAL = "Renewing acquisition locks is not enabled for the group."


class Acquired(NamedTuple):
    """Offsets given to a member, with the number of this delivery."""

    first: int
    last: int
    delivery_count: int


class SharePartition:
    """Runs in: control. Owner: the SharePartitions. Pure: time is passed.

    _changed: ranges whose state must be written (`take_changes`). _ended: records that members have
    finished since the last write (`take_ended`). _dead: archived records that need a dead letter
    (`take_dead`). _settled_start: the start offset before _changed.
    """

    def __init__(self, start_offset: int, stored: Iterable[Range] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset - 1
        self._ranges = Ranges()
        self._changed: list[Range] = []
        self._portions = Portions()
        self._ended: list[Ended] = []
        self._dead = DeadOffsets()
        self._delay_ms = -1
        self._has_delays = False
        for each in stored:
            if each.last >= start_offset:
                first = max(each.first, start_offset)
                if first > self.end_offset + 1:  # the state of the offsets between was never written
                    self._ranges.put(Range(self.end_offset + 1, first - 1, AVAILABLE, 0))
                self._ranges.put(each.part(first, each.last))
                self._portions.begin(first)
                self.end_offset = each.last
        self._acquired_end = AcquiredEnd(self.end_offset)
        self._advance()
        self._settled_start = self.start_offset

    # --- state

    def next_offset(self, limits: Limits | None = None) -> int:
        """The first offset in flight that may be acquired now, or else the offset after all of
        them. limits: of a fetch, for which there may be no room for new records."""
        released_only = limits is not None and self._has_delays and self._room(limits) <= 0
        for each in self._ranges:
            if each.is_free and (each.delivery_count or not released_only):
                return each.first
        return self.end_offset + 1

    def in_flight(self) -> int:
        """The number of offsets in flight that are not finished."""
        return sum(each.last - each.first + 1 for each in self._ranges if not each.state.is_terminal)

    def may_acquire(self, limits: Limits) -> bool:
        """Whether a fetch can acquire a record: an available one in flight, or a new one."""
        if self.next_offset(limits) <= self._last_held(limits):
            return True
        return self._room(limits) > 0 and not self.is_scattered

    def _room(self, limits: Limits) -> int:
        """The number of new records that may be acquired. As in Kafka, finished records after an
        unfinished one count as in flight, unless a delay or a pause holds that one back for long.
        With delays, records that were never delivered do not count."""
        if not self._has_delays and not limits.backoff_ms:
            return limits.records - max(0, self._acquired_end.offset - self.start_offset + 1)
        taken = self.in_flight()
        if self._has_delays:
            taken -= sum(each.last - each.first + 1 for each in self._ranges if each.is_new)
        return limits.records - taken

    def _last_held(self, limits: Limits) -> int:
        """The last offset that may be acquired when there is no room for new records."""
        return self.end_offset if self._has_delays or limits.backoff_ms else self._acquired_end.offset

    def next_deadline_ms(self) -> int | None:
        """The first end of a lock or of a pause."""
        return min((each.deadline_ms for each in self._ranges if each.deadline_ms), default=None)

    # --- acquiring

    def acquire(
        self, member_id: str, batches: Iterable[Offsets], spec: Spec, limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Acquire the available records of the batches (first, last) that were read, in order."""
        read = [(max(first, self.start_offset), last) for first, last in batches if last >= self.start_offset]
        if not read:
            return []
        room, held = self._room(limits), self._last_held(limits)
        most = min(spec.max_records, room if room > 0 else held - read[0][0] + 1)
        if room <= 0 or self.is_scattered:  # available ones in flight can still be acquired
            read = [(first, min(last, held)) for first, last in read if first <= held]
        portions = self._free_portions(read)
        if room <= 0 and self._has_delays:  # of these, those that take room already
            portions = [each for each in portions if each.size]
        given: list[Acquired] = []
        for each in choose(portions, read, spec._replace(max_records=most), limits.delivery_count):
            if each.first > self.end_offset + 1:  # offsets that do not exist in the log
                self._set(Range(self.end_offset + 1, each.first - 1, ARCHIVED, 0))
            count = min(each.delivery_count + 1, MAX_DELIVERIES)
            self._ranges.put(
                Range(each.first, each.last, ACQUIRED, count, member_id, now_ms + limits.lock_ms)
            )
            self.end_offset = max(self.end_offset, each.last)
            if not each.delivery_count and not self._acquired_end.is_rest(each.first):
                self._portions.begin(each.first)
            given.append(Acquired(each.first, each.last, count))
        if given and given[-1].last > self._acquired_end.offset:
            cuts = read if spec.strict and not self._has_delays else ()
            if cut := self._acquired_end.advance(given[-1].last, cuts):
                self._ranges.put(Range(*cut, AVAILABLE, 0))
                self.end_offset = max(self.end_offset, cut[1])
        self._advance()
        return given

    def _free_portions(self, read: Sequence[Offsets]) -> list[Portion]:
        """The available records of the batches that were read."""
        if not read:
            return []
        first, last = read[0][0], read[-1][1]
        free: list[tuple[int, Range]] = []
        for each in self._ranges.between(first, min(last, self.end_offset)):
            if each.is_free:
                free += self._parts(each)
        if last > self.end_offset:
            free.append((NEW, Range(max(first, self.end_offset + 1), last, AVAILABLE, 0)))
        return [
            Portion(self._portions.size(at, self.end_offset), [each for _, each in group])
            for at, group in groupby(free, key=itemgetter(0))
        ]

    def _parts(self, free: Range) -> list[tuple[int, Range]]:
        """Available records by their portions."""
        if free.delivery_count:
            return self._portions.cut(free, self.end_offset)
        parts: list[tuple[int, Range]] = []
        for each in self._acquired_end.apart(free):
            rest = self._acquired_end.is_rest(each.first)
            parts += self._portions.cut(each, self.end_offset) if rest else [(NEW, each)]
        return parts

    # --- acknowledging

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgedBatch],
        limits: Limits,
        now_ms: int,
        renewing: bool = False,
    ) -> None:
        """Acknowledge all batches or none. renewing: the request renews locks.

        Raises INVALID_REQUEST or INVALID_RECORD_STATE.
        """
        last_type = AcknowledgeType.RENEW if renewing else AcknowledgeType.REJECT
        for batch in paced(batches):
            if len(batch.types) > MAX_RANGES:
                self._check_long(member_id, batch)
        listed = [spec for batch in paced(batches) for spec in specs_of(batch, last_type)]
        if any(one[1] >= other[0] for one, other in paced(pairwise(in_order(listed)))):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
        specs = [spec for spec in paced(listed) if spec[1] >= self.start_offset]
        for first, last, kind in paced(specs):
            check_held(self._ranges, self.end_offset, member_id, max(first, self.start_offset), last)
            if kind is AcknowledgeType.RENEW and not limits.renewal:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NO_RENEWAL)
        for first, last, kind in specs:
            for each in list(self._ranges.between(max(first, self.start_offset), last)):
                self._ended.append(self._end(each, kind, limits, now_ms))
        self._advance()

    def _check_long(self, member_id: str, batch: AcknowledgedBatch) -> None:
        """A quick check of a very long batch: whether the member can hold the offsets."""
        if batch.first < self.start_offset - MAX_RANGES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The batch begins long before the first record.")
        check_held(self._ranges, self.end_offset, member_id, max(batch.first, self.start_offset), batch.last)

    def release(self, member_id: str, limits: Limits, now_ms: int) -> bool:
        """Release a member's records after its session; archive those at the delivery limit."""
        held = [each for each in self._ranges if each.state is ACQUIRED and each.member_id == member_id]
        for each in held:
            self._ended.append(self._end(each, AcknowledgeType.RELEASE, limits, now_ms))
        self._advance()
        return bool(held)

    def expire(self, limits: Limits, now_ms: int) -> bool:
        """Release records whose locks have expired; archive those at the delivery limit."""
        late = [each for each in self._ranges if each.state is ACQUIRED and each.deadline_ms <= now_ms]
        for each in late:
            self._end(each, AcknowledgeType.RELEASE, limits, now_ms)
        self._advance()
        return bool(late)

    def pause_retries(self, limits: Limits, now_ms: int) -> None:
        """After a restart, in which deadlines are lost: records that were delivered before pause
        again."""
        for each in [each for each in self._ranges if each.state is AVAILABLE]:
            if retry_at := limits.retry_at(each.delivery_count, now_ms):
                self._ranges.put(Range(each.first, each.last, AVAILABLE, each.delivery_count, "", retry_at))

    def end_pauses(self, now_ms: int) -> bool:
        """Make records available whose pause has ended; returns whether there were any."""
        due = [each for each in self._ranges if each.state is AVAILABLE and 0 < each.deadline_ms <= now_ms]
        for each in due:
            self._ranges.put(Range(each.first, each.last, AVAILABLE, each.delivery_count))
        return bool(due)

    def archive_before(self, log_start: int) -> None:
        """Archive the unacknowledged records below a new log start."""
        if log_start <= self.start_offset:
            return
        self._ranges.drop_before(log_start)
        self.start_offset = log_start
        self._settled_start = max(self._settled_start, log_start)
        self.end_offset = max(self.end_offset, log_start - 1)
        self._advance()

    def skip(self, first: int, last: int) -> None:
        """Archive offsets that no member gets: transaction markers, and records of aborted
        transactions."""
        first = max(first, self.start_offset)
        if last > self.end_offset:
            if first > self.end_offset + 1:
                self._ranges.put(Range(self.end_offset + 1, first - 1, AVAILABLE, 0))
            start = max(first, self.end_offset + 1)
            self._set(Range(start, last, ARCHIVED, 0))
            self.end_offset = last
        for each in list(self._ranges.between(first, last)):
            if not each.state.is_terminal and each.state is not ARCHIVING:
                self._set(Range(each.first, each.last, ARCHIVED, each.delivery_count))
        self._advance()

    # --- delays

    @property
    def is_scattered(self) -> bool:
        """Whether delays have caused too many ranges to acquire new records."""
        return self._has_delays and len(self._ranges) >= MAX_RANGES

    def use_delay(self, delay_ms: int) -> None:
        """Set the topic's delay, -1 for none. Records that wait because of an earlier delay are
        checked again."""
        if delay_ms == self._delay_ms:
            return
        self._delay_ms = delay_ms
        self._has_delays = self._has_delays or delay_ms >= 0
        for each in [each for each in self._ranges if each.is_new and each.deadline_ms]:
            self._ranges.put(Range(each.first, each.last, AVAILABLE, 0))

    def has_unseen(self, first: int, last: int) -> bool:
        """Whether there are records that were never delivered and do not wait for a delay."""
        if last > self.end_offset:
            return True
        return any(each.is_new and each.is_free for each in self._ranges.between(first, last))

    def hold_back(self, first: int, last: int, next_check_ms: int) -> None:
        """Hold these records back until their next check, except those that were delivered
        before."""
        first = max(first, self.start_offset)
        if last > self.end_offset:
            self._ranges.put(Range(self.end_offset + 1, last, AVAILABLE, 0))
            self.end_offset = last
        for each in list(self._ranges.between(first, last)):
            if each.is_new and each.is_free:
                self._ranges.put(Range(each.first, each.last, AVAILABLE, 0, "", next_check_ms))

    # --- dead letters

    @property
    def has_dead(self) -> bool:
        """Whether dead letters are to be written."""
        return not self._dead.is_empty

    def take_dead(self) -> list[Dead]:
        """Records that need a dead letter, new since the last call. The caller calls `archive` when
        the letters are written."""
        return self._dead.take()

    def archive(self, dead: Dead) -> None:
        """Finish the records: their dead letters are written."""
        for each in list(self._ranges.between(max(dead.first, self.start_offset), dead.last)):
            if each.state is ARCHIVING:
                self._set(Range(each.first, each.last, ARCHIVED, each.delivery_count))
        self._advance()

    # --- writes

    def take_changes(self) -> tuple[int, list[Range]] | None:
        """(start offset, changed ranges) since the last call; None if nothing has changed. As in
        Kafka, the start offset is the one before these changes: the next changes write the new
        one."""
        start, self._settled_start = self._settled_start, self.start_offset
        changed = [each for each in self._changed if each.last >= start]
        self._changed = []
        return (start, changed) if changed else None

    def take_ended(self) -> list[Ended]:
        """The records that members have finished since the last call, for `roll_back`."""
        ended, self._ended = self._ended, []
        return ended

    def roll_back(self, ended: Sequence[Ended], changed: Iterable[Range]) -> None:
        """Undo changes that could not be written. Members hold the records again that they had
        finished, under the same lock, unless the records have changed since (Kafka's
        InFlightState.completeStateTransition). The next `take_changes` includes the other
        changes."""
        ended = [each for each in ended if each.after.state is not ACQUIRED]
        done = [each.after for each in ended if each.after.state.is_terminal]
        start = self.start_offset
        first = min((each.first for each in done), default=start)
        if first < start:
            self._ranges.put(Range(first, start - 1, ACKNOWLEDGED, 0))
            self.start_offset = first
        for each in done:
            if each.first < start:
                self._ranges.put(each.part(each.first, min(each.last, start - 1)))
                self._portions.begin(each.first)
        for before, after in ended:
            for each in list(self._ranges.between(before.first, before.last)):
                if each.like(after):
                    self._ranges.put(before.part(each.first, each.last))
                    self._dead.remove(each.first, each.last)
        undone = {id(each.after) for each in ended}
        self._changed[:0] = [each for each in changed if id(each) not in undone]
        self._settled_start = min(self._settled_start, self.start_offset)
        self._advance()

    def _end(self, each: Range, kind: AcknowledgeType, limits: Limits, now_ms: int) -> Ended:
        """Change an acquired range: it is acknowledged, released or archived, or its lock is
        renewed."""
        after = range_after(each, kind, limits, now_ms)
        self._set(after, persisted=after.state not in (ACQUIRED, ARCHIVING))
        if after.state is ARCHIVING:
            why = REJECTED if kind is AcknowledgeType.REJECT else EXCEEDED
            self._dead.add(Dead(each.first, each.last, each.delivery_count, why))
        return Ended(each, after)

    def _set(self, new: Range, persisted: bool = True) -> None:
        self._ranges.put(new)
        if persisted:
            self._changed.append(new)

    def _advance(self) -> None:
        """Advance the start offset beyond finished records."""
        start = self.start_offset
        for each in self._ranges:
            if each.first > start or not each.state.is_terminal:
                break
            start = each.last + 1
        if start > self.start_offset:
            self.start_offset = start
            self._ranges.drop_before(start)
        self._portions.drop_before(self.start_offset)
