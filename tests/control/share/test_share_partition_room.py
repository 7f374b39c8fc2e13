"""Room for records in flight in a partition."""

from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.share_partition import Acquired, SharePartition

LIMITS = Limits(lock_ms=30_000, delivery_count=3, records=10)
ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE


def acknowledge(part: SharePartition, first: int, last: int) -> None:
    part.acknowledge("a", [AcknowledgedBatch(first, last, [ACCEPT])], LIMITS, 0)


def take(part: SharePartition, first: int, last: int, strict: bool = False) -> list[Acquired]:
    return part.acquire("a", [(first, last)], Spec(6, strict=strict), LIMITS, 0)


def test_finished_records_after_an_unfinished_one_take_room() -> None:
    part = SharePartition(0)
    assert take(part, 0, 9) == [Acquired(0, 9, 1)]
    acknowledge(part, 1, 9)
    assert not part.may_acquire(LIMITS)
    assert take(part, 10, 19) == []
    acknowledge(part, 0, 0)
    assert part.may_acquire(LIMITS)
    assert take(part, 10, 19) == [Acquired(10, 19, 1)]


def test_where_released_records_pause_finished_ones_take_none() -> None:
    part, limits = SharePartition(0), LIMITS._replace(backoff_ms=1000)
    part.acquire("a", [(0, 9)], Spec(10), limits, 0)
    part.acknowledge("a", [AcknowledgedBatch(0, 0, [RELEASE])], limits, 0)
    part.acknowledge("a", [AcknowledgedBatch(1, 9, [ACCEPT])], limits, 0)
    assert part.acquire("a", [(10, 15)], Spec(10), limits, 0) == [Acquired(10, 15, 1)]


def test_the_rest_of_a_batch_that_a_strict_fetch_cut_needs_no_room() -> None:
    part = SharePartition(0)
    assert take(part, 0, 19, strict=True) == [Acquired(0, 5, 1)]
    assert (part.next_offset(), part.end_offset) == (6, 19)
    assert take(part, 6, 19, strict=True) == [Acquired(6, 11, 1)]
    assert take(part, 12, 25) == [Acquired(12, 19, 1)]
    assert not part.may_acquire(LIMITS)


def test_all_of_the_rest_is_acquired_at_once_without_room() -> None:
    part = SharePartition(0)
    take(part, 0, 19, strict=True)
    rest = part.acquire("a", [(6, 19)], Spec(500, strict=True), LIMITS, 0)
    assert rest == [Acquired(6, 19, 1)]


def test_the_parts_of_a_cut_batch_are_one_portion() -> None:
    part, limits = SharePartition(0), LIMITS._replace(records=100)
    for first, last in ((0, 5), (6, 11)):
        acquired = part.acquire("a", [(first, 19)], Spec(6, strict=True), limits, 0)
        assert acquired == [Acquired(first, last, 1)]
    part.release("a", limits, 0)
    again = part.acquire("a", [(0, 19)], Spec(5), limits, 0)
    assert again == [Acquired(0, 11, 2), Acquired(12, 19, 1)]


def test_a_log_that_begins_after_the_last_acquired_record_makes_no_more_room() -> None:
    part = SharePartition(0)
    part.archive_before(50)
    acquired = part.acquire("a", [(50, 59), (60, 69)], Spec(500), LIMITS, 0)
    assert acquired == [Acquired(50, 59, 1)]


def test_offsets_skipped_after_the_last_acquired_record_take_no_room() -> None:
    part = SharePartition(0)
    part.skip(20, 20)
    assert take(part, 0, 19) == [Acquired(0, 19, 1)]
    assert not part.may_acquire(LIMITS)
