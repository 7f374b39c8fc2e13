"""A member's acknowledgements: their types, and the effect of each on an acquired range. Pure."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

MAX_SPECS = 20_000
"""Ranges of one request: each takes some 25 microseconds, in one go. Twice the records that may be
locked one by one; a batch of the log may have millions, and is acquired as a whole."""
TOO_MANY = "The acknowledgements differ too often from one record to the next."
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."


class AcknowledgeType(IntEnum):
    """A member's acknowledgement. GAP: no record has this offset. RENEW: the member needs more time
    (KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedBatch(NamedTuple):
    """Offsets with one type for all of them, or one type for each."""

    first: int
    last: int
    types: Sequence[int]


class Ended(NamedTuple):
    """Offsets that a member held, and their state after its acknowledgement or the end of its
    session."""

    before: Range
    after: Range


Spec = tuple[int, int, AcknowledgeType]
"""(first, last, type)"""


def specs_of(batch: AcknowledgedBatch, last_type: AcknowledgeType) -> list[Spec]:
    """The batch as ranges; adjacent offsets with the same type are merged. Raises
    INVALID_REQUEST."""
    length = batch.last - batch.first + 1
    if length < 1 or len(batch.types) not in (1, length):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    specs: list[Spec] = []
    for offset, number in enumerate(paced(batch.types), batch.first):
        if not 0 <= number <= last_type:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if specs and specs[-1][2] == number:
            specs[-1] = (specs[-1][0], offset, specs[-1][2])
        elif len(specs) >= MAX_SPECS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, TOO_MANY)
        else:
            specs.append((offset, offset, AcknowledgeType(number)))
    return [(batch.first, batch.last, specs[0][2])] if len(batch.types) == 1 else specs


def range_after(each: Range, kind: AcknowledgeType, limits: Limits, now_ms: int) -> Range:
    """An acquired range after an acknowledgement."""
    if kind is AcknowledgeType.RENEW:
        return Range(
            each.first,
            each.last,
            DeliveryState.ACQUIRED,
            each.delivery_count,
            each.member_id,
            now_ms + limits.lock_ms,
        )
    retry_at = 0
    if kind is AcknowledgeType.ACCEPT:
        state = DeliveryState.ACKNOWLEDGED
    elif kind is AcknowledgeType.RELEASE and each.delivery_count < limits.delivery_count:
        state, retry_at = DeliveryState.AVAILABLE, limits.retry_at(each.delivery_count, now_ms)
    elif limits.dead_letters and kind is not AcknowledgeType.GAP:
        state = DeliveryState.ARCHIVING
    else:
        state = DeliveryState.ARCHIVED
    return Range(each.first, each.last, state, each.delivery_count, "", retry_at)
