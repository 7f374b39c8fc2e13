"""A record that was released pauses before it is delivered again, and others do not wait for it."""

from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.share_partition import Acquired, SharePartition

LIMITS = Limits(delivery_count=9, records=100, backoff_ms=100, max_backoff_ms=350)
RELEASE = AcknowledgeType.RELEASE


def deliver(part: SharePartition, now_ms: int, last: int = 0) -> list[Acquired]:
    return part.acquire("a", [(0, last)], Spec(500), LIMITS, now_ms)


def free(part: SharePartition, first: int, last: int, now_ms: int) -> None:
    part.acknowledge("a", [AcknowledgedBatch(first, last, [RELEASE])], LIMITS, now_ms)


def test_the_pause_doubles_up_to_the_longest() -> None:
    part, now_ms = SharePartition(0), 1000
    for count, pause_ms in enumerate((100, 200, 350, 350), 1):
        assert deliver(part, now_ms) == [Acquired(0, 0, count)]
        free(part, 0, 0, now_ms)
        assert part.next_deadline_ms() == now_ms + pause_ms
        assert not part.end_pauses(now_ms + pause_ms - 1)
        assert deliver(part, now_ms + pause_ms - 1) == []
        now_ms += pause_ms
        assert part.end_pauses(now_ms)
        assert part.next_deadline_ms() is None


def test_the_wall_clocks_lead_ends_no_pause() -> None:
    """It counts for delays alone, which are due by the wall clock."""
    part = SharePartition(0)
    deliver(part, 1000)
    free(part, 0, 0, 1000)
    assert part.next_deadline_ms(ahead_ms=5000) == 1100
    assert not part.end_pauses(1099, ahead_ms=5000)
    assert part.end_pauses(1100, ahead_ms=5000)


def test_others_continue_meanwhile() -> None:
    part = SharePartition(0)
    deliver(part, 0, 9)
    free(part, 3, 4, 0)
    assert part.next_offset() == 10
    assert part.in_flight() == 10
    acquired = part.acquire("b", [(0, 9), (10, 12)], Spec(500), LIMITS, 50)
    assert acquired == [Acquired(10, 12, 1)]
    part.end_pauses(100)
    assert part.next_offset() == 3
    assert part.acquire("b", [(0, 9)], Spec(500), LIMITS, 100) == [Acquired(3, 4, 2)]


def test_a_lock_that_expires_and_a_member_that_goes_bring_a_pause() -> None:
    part = SharePartition(0)
    deliver(part, 0)
    assert part.expire(LIMITS, LIMITS.lock_ms)
    assert part.next_deadline_ms() == LIMITS.lock_ms + 100
    part.end_pauses(LIMITS.lock_ms + 100)
    deliver(part, 40_000)
    assert part.release("a", LIMITS, 41_000)
    assert part.next_deadline_ms() == 41_200


def test_paused_records_take_room() -> None:
    part = SharePartition(0)
    limits = LIMITS._replace(records=2)
    part.acquire("a", [(0, 1)], Spec(500), limits, 0)
    part.acknowledge("a", [AcknowledgedBatch(0, 1, [RELEASE])], limits, 0)
    assert not part.may_acquire(limits)
    part.end_pauses(100)
    assert part.may_acquire(limits)


def test_pauses_that_ended_leave_one_range() -> None:
    part = SharePartition(0)
    deliver(part, 0, 9)
    for offset in range(10):
        free(part, offset, offset, offset)
    part.end_pauses(1000)
    assert deliver(part, 1000, 9) == [Acquired(0, 9, 2)]


def test_a_restart_begins_the_pause_again() -> None:
    part = SharePartition(0)
    deliver(part, 0, 9)
    free(part, 2, 3, 0)
    changes = part.take_changes()
    assert changes is not None
    again = SharePartition(changes[0], changes[1])
    again.pause_retries(LIMITS, 5000)
    assert again.next_deadline_ms() == 5100
    assert deliver(again, 5099, 9) == [Acquired(0, 1, 1), Acquired(4, 9, 1)]
    again.end_pauses(5100)
    assert again.acquire("b", [(0, 9)], Spec(500), LIMITS, 5100) == [Acquired(2, 3, 2)]


def test_without_the_setting_nothing_pauses() -> None:
    part = SharePartition(0)
    limits = LIMITS._replace(backoff_ms=0)
    part.acquire("a", [(0, 9)], Spec(500), limits, 0)
    part.acknowledge("a", [AcknowledgedBatch(0, 9, [RELEASE])], limits, 0)
    assert part.next_deadline_ms() is None
    part.pause_retries(limits, 5000)
    assert deliver(part, 5000, 9) == [Acquired(0, 9, 2)]
