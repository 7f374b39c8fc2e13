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
from itertools import pairwise
from typing import NamedTuple

from kbroker.control.share.acknowledging import (
    MAX_SPECS,
    NOT_ACQUIRED,
    TOO_MANY,
    AcknowledgedBatch,
    AcknowledgeType,
    Ended,
    range_after,
    specs_of,
)
from kbroker.control.share.acquired_end import AcquiredEnd
from kbroker.control.share.acquiring import Offsets, Spec, choose
from kbroker.control.share.dead_offsets import EXCEEDED, REJECTED, Dead, DeadOffsets
from kbroker.control.share.in_flight import InFlight
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import MAX_DELIVERIES, DeliveryState, Range
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import in_order, paced

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ARCHIVING, ARCHIVED = DeliveryState.ARCHIVING, DeliveryState.ARCHIVED

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

    _ended: records that members have finished since the last write (`take_ended`). _dead: archived
    records that need a dead letter (`take_dead`).
    """

    def __init__(self, start_offset: int, stored: Iterable[Range] = ()) -> None:
        self._in_flight = InFlight(start_offset, stored)
        self._acquired_end = AcquiredEnd(self._in_flight.end_offset)
        self._ended: list[Ended] = []
        self._dead = DeadOffsets()
        self._delay_ms = -1
        self._has_delays = False

    # --- state

    @property
    def start_offset(self) -> int:
        """The first offset in flight."""
        return self._in_flight.start_offset

    @property
    def end_offset(self) -> int:
        """The last offset in flight."""
        return self._in_flight.end_offset

    def next_offset(self, limits: Limits | None = None) -> int:
        """The first offset in flight that may be acquired now, or else the offset after all of
        them. limits: of a fetch, for which there may be no room for new records."""
        released_only = limits is not None and self._has_delays and self._room(limits) <= 0
        for each in self._in_flight:
            if each.is_free and (each.delivery_count or not released_only):
                return each.first
        return self.end_offset + 1

    def in_flight(self) -> int:
        """The number of offsets in flight that are not finished."""
        return self._in_flight.unfinished()

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
            taken -= sum(each.last - each.first + 1 for each in self._in_flight if each.is_new)
        return limits.records - taken

    def _last_held(self, limits: Limits) -> int:
        """The last offset that may be acquired when there is no room for new records."""
        return self.end_offset if self._has_delays or limits.backoff_ms else self._acquired_end.offset

    def next_deadline_ms(self, ahead_ms: int = 0) -> int | None:
        """The first end of a lock, pause or delay, by CLOCK_MONOTONIC. ahead_ms: of this clock the
        wall clock is ahead."""
        return min(
            (each.deadline_ms - ahead_ms * each.is_new for each in self._in_flight if each.deadline_ms),
            default=None,
        )

    # --- acquiring

    def acquire(
        self, member_id: str, batches: Iterable[Offsets], spec: Spec, limits: Limits, now_ms: int
    ) -> list[Acquired]:
        """Acquire the available records of the batches (first, last) that were read, in order."""
        read = [(max(first, self.start_offset), last) for first, last in batches if last >= self.start_offset]
        if not read:
            return []
        in_flight, room, held = self._in_flight, self._room(limits), self._last_held(limits)
        max_records = min(spec.max_records, room if room > 0 else held - read[0][0] + 1)
        if room <= 0 or self.is_scattered:  # available ones in flight can still be acquired
            read = [(first, min(last, held)) for first, last in read if first <= held]
        portions = self._in_flight.available(read, self._acquired_end)
        if room <= 0 and self._has_delays:  # of these, those that take room already
            portions = [each for each in portions if each.size]
        given: list[Acquired] = []
        for each in choose(portions, read, spec._replace(max_records=max_records), limits.delivery_count):
            if each.first > self.end_offset + 1:  # offsets that do not exist in the log
                in_flight.put(Range(self.end_offset + 1, each.first - 1, ARCHIVED, 0))
            count = min(each.delivery_count + 1, MAX_DELIVERIES)
            acquired = Range(each.first, each.last, ACQUIRED, count, member_id, now_ms + limits.lock_ms)
            in_flight.put(acquired, persisted=False)
            if not each.delivery_count and not self._acquired_end.is_rest(each.first):
                in_flight.portions.begin(each.first)
            given.append(Acquired(each.first, each.last, count))
        if given and given[-1].last > self._acquired_end.offset:
            cuts = read if spec.strict and not self._has_delays else ()
            if cut := self._acquired_end.advance(given[-1].last, cuts):
                in_flight.put(Range(*cut, AVAILABLE, 0), persisted=False)
        in_flight.advance()
        return given

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
        if any(batch.first < before.last for before, batch in paced(pairwise(batches))):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        for batch in paced(batches):
            if len(batch.types) > MAX_RANGES:
                self._check_long(member_id, batch)
        listed = [spec for batch in paced(batches) for spec in specs_of(batch, last_type)]
        if any(one[1] >= other[0] for one, other in paced(pairwise(in_order(listed)))):
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
        specs = [spec for spec in paced(listed) if spec[1] >= self.start_offset]
        if len(specs) > 1 and len(specs) + len(self._in_flight) > MAX_SPECS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, TOO_MANY)
        for first, last, kind in paced(specs):
            self._in_flight.check_held(member_id, first, last)
            if kind is AcknowledgeType.RENEW and not limits.renewal:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NO_RENEWAL)
        for first, last, kind in specs:
            for each in list(self._in_flight.between(first, last)):
                self._ended.append(self._end(each, kind, limits, now_ms))
        self._in_flight.advance()

    def _check_long(self, member_id: str, batch: AcknowledgedBatch) -> None:
        """A quick check of a very long batch: whether the member can hold the offsets."""
        if batch.first < self.start_offset - MAX_RANGES:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The batch begins long before the first record.")
        self._in_flight.check_held(member_id, batch.first, batch.last)

    def release(self, member_id: str, limits: Limits, now_ms: int) -> bool:
        """Release a member's records after its session; archive those at the delivery limit.
        Returns whether the member had any."""
        held = [each for each in self._in_flight if each.state is ACQUIRED and each.member_id == member_id]
        for each in held:
            self._ended.append(self._end(each, AcknowledgeType.RELEASE, limits, now_ms))
        self._in_flight.advance()
        return bool(held)

    def expire(self, limits: Limits, now_ms: int) -> bool:
        """Release records whose locks have expired; archive those at the delivery limit. Returns
        whether there were any."""
        late = [each for each in self._in_flight if each.state is ACQUIRED and each.deadline_ms <= now_ms]
        for each in late:
            self._end(each, AcknowledgeType.RELEASE, limits, now_ms)
        self._in_flight.advance()
        return bool(late)

    def pause_retries(self, limits: Limits, now_ms: int) -> None:
        """Restart the pauses of records that were delivered before: a restart loses their
        deadlines."""
        for each in [each for each in self._in_flight if each.state is AVAILABLE]:
            if retry_at := limits.retry_at(each.delivery_count, now_ms):
                self._in_flight.hold_until(retry_at, [each])

    def end_pauses(self, now_ms: int, ahead_ms: int = 0) -> bool:
        """Make records available whose pause or delay has ended; returns whether there were any.
        ahead_ms: as of `next_deadline_ms`."""
        paused = (each for each in self._in_flight if each.state is AVAILABLE and each.deadline_ms)
        due = [each for each in paused if each.deadline_ms - ahead_ms * each.is_new <= now_ms]
        self._in_flight.hold_until(0, due)
        return bool(due)

    def archive_before(self, log_start: int) -> None:
        """Archive the unacknowledged records below a new log start."""
        self._in_flight.archive_before(log_start)

    def skip(self, first: int, last: int) -> None:
        """Archive offsets that no member gets: transaction markers, and records of aborted
        transactions."""
        self._in_flight.skip(first, last)

    # --- delays

    @property
    def is_scattered(self) -> bool:
        """Whether delays have caused too many ranges to acquire new records."""
        return self._has_delays and len(self._in_flight) >= MAX_RANGES

    def use_delay(self, delay_ms: int) -> None:
        """Set the topic's delay, -1 for none. Records that wait because of an earlier delay are
        checked again."""
        if delay_ms == self._delay_ms:
            return
        self._delay_ms = delay_ms
        self._has_delays = self._has_delays or delay_ms >= 0
        waiting = [each for each in self._in_flight if each.is_new and each.deadline_ms]
        self._in_flight.hold_until(0, waiting)

    def has_unseen(self, first: int, last: int) -> bool:
        """Whether there are records that were never delivered and do not wait for a delay."""
        if last > self.end_offset:
            return True
        return any(each.is_new and each.is_free for each in self._in_flight.between(first, last))

    def hold_back(self, first: int, last: int, next_check_ms: int) -> None:
        """Hold these records back until their next check, except those that were delivered
        before."""
        self._in_flight.extend(last)
        unseen = [each for each in self._in_flight.between(first, last) if each.is_new and each.is_free]
        self._in_flight.hold_until(next_check_ms, unseen)

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
        self._in_flight.archive(dead.first, dead.last, (ARCHIVING,))

    # --- writes

    def take_changes(self) -> tuple[int, list[Range]] | None:
        """(start offset, changed ranges) since the last call; None if nothing has changed. As in
        Kafka, the start offset is the one before these changes."""
        return self._in_flight.take_changes()

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
        for first, last in self._in_flight.undo(ended, changed):
            self._dead.remove(first, last)

    def _end(self, each: Range, kind: AcknowledgeType, limits: Limits, now_ms: int) -> Ended:
        """Change an acquired range: it is acknowledged, released or archived, or its lock is
        renewed."""
        after = range_after(each, kind, limits, now_ms)
        self._in_flight.put(after, persisted=after.state not in (ACQUIRED, ARCHIVING))
        if after.state is ARCHIVING:
            why = REJECTED if kind is AcknowledgeType.REJECT else EXCEEDED
            self._dead.add(Dead(each.first, each.last, each.delivery_count, why))
        return Ended(each, after)
