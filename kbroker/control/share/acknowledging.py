"""A member's acknowledgements: their types, and what each makes of an acquired range. Pure."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.protocol.errors import ErrorCode, KafkaError


class AcknowledgeType(IntEnum):
    """A member's acknowledgement. GAP: there is no record at the offset. RENEW: it needs more time
    (KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedBatch(NamedTuple):
    """Offsets and one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]


def specs_of(batch: AcknowledgedBatch, last_type: AcknowledgeType) -> list[tuple[int, int, AcknowledgeType]]:
    """(first, last, type) with neighbours of one type together. Raises INVALID_REQUEST."""
    length = batch.last - batch.first + 1
    if length < 1 or len(batch.types) not in (1, length):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not all(0 <= kind <= last_type for kind in batch.types):
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    kinds = [AcknowledgeType(kind) for kind in batch.types]
    if len(kinds) == 1:
        return [(batch.first, batch.last, kinds[0])]
    specs: list[tuple[int, int, AcknowledgeType]] = []
    for offset, kind in enumerate(kinds, batch.first):
        if specs and specs[-1][2] is kind:
            specs[-1] = (specs[-1][0], offset, kind)
        else:
            specs.append((offset, offset, kind))
    return specs


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
