"""Chooses the available records that a member acquires, as Kafka's SharePartition.acquire does.
Pure.

Released records are delivered again in the batches of their first delivery. With a growing delivery
count the batches get smaller, in the end one record each: a record that crashes its consumer must
not archive the records beside it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kbroker.control.share.ranges import DeliveryState, Range

Offsets = tuple[int, int]
"""(first, last)"""


class Spec(NamedTuple):
    """strict: never more than max_records; else whole batches of the log, including the batch that
    reaches it.

    batch_size: new records are acquired in batches of about this many.
    """

    max_records: int
    batch_size: int = 2**31 - 1
    strict: bool = False


class Portion(NamedTuple):
    """The available records of one former delivery; size: its number of records, 0 for new
    records."""

    size: int
    free: list[Range]


def choose(
    portions: Sequence[Portion], read: Sequence[Offsets], spec: Spec, delivery_limit: int
) -> list[Range]:
    """The ranges to acquire, in their current state. read: the batches that were read from the
    log."""
    chosen: list[Range] = []
    left = spec.max_records
    for portion in portions:
        throttled = any(each.delivery_count >= _throttled_from(delivery_limit) for each in portion.free)
        if left <= 0 or (throttled and chosen):
            break
        if not portion.size:
            taken = _new(portion.free, read, spec, left)
        else:
            taken = _again(portion, left if spec.strict else None, delivery_limit)
        chosen += taken
        left -= sum(each.last - each.first + 1 for each in taken)
        if throttled:
            break
    return chosen


def _throttled_from(delivery_limit: int) -> int:
    """The delivery count from which records are delivered in smaller batches."""
    return max(2, (delivery_limit + 1) // 2)


def _new(free: Sequence[Range], read: Sequence[Offsets], spec: Spec, max_records: int) -> list[Range]:
    """Batches of the log until there are enough records; adjacent batches are joined up to
    batch_size."""
    taken: list[Range] = []
    count = at = 0
    for first, last in read:
        while at < len(free) and free[at].last < first:
            at += 1
        for each in free[at:]:
            if count >= max_records or each.first > last:
                break
            begin, end = max(first, each.first), min(last, each.last)
            if spec.strict:
                end = min(end, begin + max_records - count - 1)
            count += end - begin + 1
            before = taken[-1] if taken else None
            if (
                before
                and before.last + 1 == begin
                and (spec.strict or begin - before.first < spec.batch_size)
            ):
                before.last = end
            else:
                taken.append(Range(begin, end, DeliveryState.AVAILABLE, 0))
    return taken


def _again(portion: Portion, max_records: int | None, delivery_limit: int) -> list[Range]:
    """Released records of a portion; fewer with a growing delivery count."""
    taken: list[Range] = []
    count = 0
    portion_limit: int | None = None
    for each in portion.free:
        if delivery_limit > 2 and each.delivery_count == delivery_limit - 1:  # the last delivery: one record
            if not count:
                taken.append(each.part(each.first, each.first))
            break
        excess = each.delivery_count - _throttled_from(delivery_limit)
        if excess >= 0 and portion_limit is None:
            portion_limit = max(1, portion.size >> (excess + 1))
        size = each.last - each.first + 1
        if max_records is not None:
            size = min(size, max_records - count)
        if portion_limit is not None and count < portion_limit:
            size = min(size, portion_limit - count)
        taken.append(each.part(each.first, each.first + size - 1))
        count += size
        if count in (max_records, portion_limit):
            break
    return taken
