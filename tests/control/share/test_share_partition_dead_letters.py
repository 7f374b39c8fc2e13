"""Records that are given up in a group with a dead-letter topic: finished only once their letters
are written."""

import pytest

from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.dead_offsets import EXCEEDED, REJECTED, Dead
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.share_partition import Acquired, SharePartition
from kbroker.protocol.errors import ErrorCode, KafkaError

LIMITS = Limits(lock_ms=30_000, delivery_count=2, records=100, dead_letters=True)
ACCEPT, RELEASE, REJECT, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
)


def taken(*deliveries: int) -> SharePartition:
    """A partition whose first ten records a member has, after as many releases."""
    part = SharePartition(0)
    for _ in deliveries:
        take(part)
        part.release("a", LIMITS, 0)
    take(part)
    return part


def take(part: SharePartition) -> list[Acquired]:
    return part.acquire("a", [(0, 9)], Spec(500), LIMITS, 0)


def acknowledge(part: SharePartition, first: int, last: int, kind: AcknowledgeType) -> None:
    part.acknowledge("a", [AcknowledgedBatch(first, last, [kind])], LIMITS, 0)


def states(part: SharePartition) -> list[Range]:
    found = part.take_changes()
    return [] if found is None else found[1]


def test_a_rejected_record_is_not_archived_before_its_letter_is_written() -> None:
    part = taken()
    acknowledge(part, 0, 3, REJECT)
    assert (part.start_offset, part.has_dead, part.take_changes()) == (0, True, None)
    (dead,) = part.take_dead()
    assert dead == Dead(0, 3, 1, REJECTED)
    assert (part.has_dead, part.take_dead()) == (False, [])
    part.archive(dead)
    assert part.start_offset == 4
    assert part.take_changes() == (0, [Range(0, 3, DeliveryState.ARCHIVED, 1)])


def test_a_record_that_is_held_again_needs_no_letter() -> None:
    part = taken()
    acknowledge(part, 0, 3, REJECT)
    part.roll_back(part.take_ended(), [])
    assert (part.has_dead, part.take_dead()) == (False, [])
    acknowledge(part, 0, 3, ACCEPT)
    assert part.start_offset == 4


def test_a_record_delivered_too_often_needs_a_letter_however_it_came_back() -> None:
    part = taken(1)
    acknowledge(part, 0, 1, RELEASE)
    part.acknowledge("a", [AcknowledgedBatch(2, 3, [ACCEPT, REJECT])], LIMITS, 0)
    assert part.release("a", LIMITS, 0)
    assert part.take_dead() == [Dead(0, 1, 2, EXCEEDED), Dead(3, 3, 2, REJECTED), Dead(4, 9, 2, EXCEEDED)]
    part = taken(1)
    assert part.expire(LIMITS, 30_000)
    assert part.take_dead() == [Dead(0, 9, 2, EXCEEDED)]


def test_neighbours_that_are_given_up_for_the_same_reason_are_one() -> None:
    part = taken()
    for first, last in ((0, 1), (2, 2), (4, 5)):
        acknowledge(part, first, last, REJECT)
    assert part.take_dead() == [Dead(0, 2, 1, REJECTED), Dead(4, 5, 1, REJECTED)]


def test_neither_released_nor_missing_records_need_one() -> None:
    part = taken()
    acknowledge(part, 0, 1, GAP)
    acknowledge(part, 2, 9, RELEASE)
    assert (part.start_offset, part.take_dead()) == (2, [])


def test_without_a_topic_records_are_archived_at_once() -> None:
    part = taken()
    part.acknowledge("a", [AcknowledgedBatch(0, 9, [REJECT])], LIMITS._replace(dead_letters=False), 0)
    assert (part.start_offset, part.has_dead) == (10, False)


def test_no_member_gets_or_acknowledges_a_record_meanwhile() -> None:
    part = taken()
    acknowledge(part, 0, 4, REJECT)
    assert (take(part), part.in_flight(), part.expire(LIMITS, 29_999)) == ([], 10, False)
    with pytest.raises(KafkaError) as error:
        acknowledge(part, 0, 4, ACCEPT)
    assert error.value.code is ErrorCode.INVALID_RECORD_STATE
    part.skip(0, 4)
    part.release("a", LIMITS, 0)
    assert part.start_offset == 0


def test_a_restart_gives_what_had_no_letter_again() -> None:
    part = taken()
    acknowledge(part, 0, 4, REJECT)
    acknowledge(part, 5, 9, ACCEPT)
    again = SharePartition(0, states(part))
    assert take(again) == [Acquired(0, 4, 1)]


def test_records_that_the_log_lost_meanwhile_stay_below_the_start() -> None:
    part = taken()
    acknowledge(part, 0, 4, REJECT)
    (dead,) = part.take_dead()
    part.archive_before(3)
    part.archive(dead)
    assert part.start_offset == 5
    assert [(each.first, each.last, each.state) for each in states(part)] == [(3, 4, DeliveryState.ARCHIVED)]


def test_a_letter_in_the_middle_is_written_down_on_its_own() -> None:
    part = taken()
    acknowledge(part, 4, 5, REJECT)
    (dead,) = part.take_dead()
    part.archive(dead)
    assert states(part) == [Range(4, 5, DeliveryState.ARCHIVED, 1)]
