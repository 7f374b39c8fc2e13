"""Records that are not due wait: later records are delivered before them, and they take no room."""

import pytest

from kbroker.control.share import share_partition
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.share_partition import Acquired, SharePartition

LIMITS = Limits(lock_ms=1000, delivery_count=5, records=10)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


def delayed(start: int = 0) -> SharePartition:
    part = SharePartition(start)
    part.use_delay(0)
    return part


def take(part: SharePartition, first: int, last: int, now_ms: int = 0) -> list[Acquired]:
    return part.acquire("a", [(first, last)], Spec(500, strict=True), LIMITS, now_ms)


def acknowledge(part: SharePartition, first: int, last: int, kind: AcknowledgeType = ACCEPT) -> None:
    part.acknowledge("a", [AcknowledgedBatch(first, last, [kind])], LIMITS, 0)


def test_others_go_past_what_is_held_back() -> None:
    part = delayed()
    part.hold_back(1, 3, 500)
    assert take(part, 0, 6) == [Acquired(0, 0, 1), Acquired(4, 6, 1)]
    acknowledge(part, 0, 0)
    acknowledge(part, 4, 6)
    assert (part.start_offset, part.next_offset(LIMITS), part.in_flight()) == (1, 7, 3)
    assert part.next_deadline_ms() == 500
    assert not part.end_pauses(499)
    assert part.end_pauses(500)
    assert take(part, 0, 6, 500) == [Acquired(1, 3, 1)]


def test_records_that_are_held_back_take_no_room() -> None:
    part = delayed()
    part.hold_back(0, 9999, 500)
    assert part.may_acquire(LIMITS)
    assert part.next_offset(LIMITS) == 10_000
    assert take(part, 10_000, 10_020) == [Acquired(10_000, 10_009, 1)]
    assert not part.may_acquire(LIMITS)


def test_no_more_are_given_than_there_is_room_for_when_many_come_due() -> None:
    part = delayed()
    part.hold_back(0, 9999, 500)
    part.end_pauses(500)
    assert take(part, 0, 9999) == [Acquired(0, 9, 1)]
    assert not part.may_acquire(LIMITS)
    assert take(part, 0, 9999) == []
    acknowledge(part, 0, 3)
    assert take(part, 4, 9999) == [Acquired(10, 13, 1)]


def test_without_room_a_fetch_goes_to_what_was_released() -> None:
    part = delayed()
    part.hold_back(0, 4, 500)
    take(part, 5, 14)
    part.end_pauses(500)
    assert not part.may_acquire(LIMITS)
    acknowledge(part, 9, 9, RELEASE)
    assert part.next_offset(LIMITS) == 9
    assert take(part, 0, 14) == [Acquired(9, 9, 2)]


def test_delivered_records_are_not_held_back() -> None:
    part = delayed()
    take(part, 0, 4)
    acknowledge(part, 1, 1)
    acknowledge(part, 3, 3, RELEASE)
    part.hold_back(0, 5, 500)
    assert part.next_offset(LIMITS) == 3
    acknowledge(part, 0, 0)
    assert part.start_offset == 2
    part.hold_back(0, 1, 500)
    assert part.start_offset == 2


def test_another_delay_has_them_checked_again() -> None:
    part = delayed()
    part.use_delay(1000)
    part.hold_back(0, 4, 1000)
    part.use_delay(1000)
    assert part.next_offset(LIMITS) == 5
    assert not part.has_unseen(0, 4)
    part.use_delay(-1)
    assert part.next_offset(LIMITS) == 0
    assert part.has_unseen(4, 4)


def test_a_restart_looks_again() -> None:
    part = delayed()
    part.hold_back(0, 4, 500)
    take(part, 5, 6)
    acknowledge(part, 5, 6)
    changes = part.take_changes()
    assert changes is not None
    assert changes[0] == 0
    again = SharePartition(*changes)
    again.use_delay(0)
    assert again.next_offset(LIMITS) == 0
    assert again.has_unseen(0, 4)
    assert not again.has_unseen(5, 6)


def test_records_that_expire_before_they_are_due_are_passed_over() -> None:
    part = delayed()
    part.hold_back(0, 4, 500)
    part.archive_before(3)
    assert (part.start_offset, part.in_flight(), part.next_deadline_ms()) == (3, 2, 500)
    part.archive_before(8)
    assert (part.start_offset, part.in_flight(), part.next_deadline_ms()) == (8, 0, None)


def test_new_records_wait_while_there_are_too_many_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_partition, "MAX_RANGES", 6)
    part = delayed()
    for first in range(0, 6, 2):
        part.hold_back(first, first, 500 + first)
    take(part, 0, 5)
    assert part.is_scattered
    assert not part.may_acquire(LIMITS)
    assert take(part, 6, 9) == []
    part.end_pauses(500)
    assert part.may_acquire(LIMITS)
    assert take(part, 0, 9) == [Acquired(0, 0, 1)]
    acknowledge(part, 0, 1)
    assert not part.is_scattered
    assert take(part, 6, 9) == [Acquired(6, 9, 1)]


def test_without_a_delay_what_is_in_flight_takes_room_as_ever() -> None:
    part = SharePartition(0)
    part.use_delay(-1)
    part.skip(20, 20)
    assert part.next_offset(LIMITS) == 0
    assert part.acquire("a", [(0, 19), (21, 30)], Spec(500), LIMITS, 0) == [Acquired(0, 19, 1)]
    assert not part.may_acquire(LIMITS)
