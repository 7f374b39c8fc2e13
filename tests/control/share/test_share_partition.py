"""The records of a partition among members: each is delivered, locked, and done, and nothing is
lost."""

import pytest

from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.share_partition import Acquired, SharePartition
from kbroker.protocol.errors import ErrorCode, KafkaError

LIMITS = Limits(lock_ms=30_000, delivery_count=3, records=100)
ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)


def acknowledge(
    part: SharePartition, member: str, first: int, last: int, *kinds: int, now_ms: int = 0
) -> None:
    part.acknowledge(member, [AcknowledgedBatch(first, last, kinds)], LIMITS, now_ms)


def take(
    part: SharePartition, member: str, *batches: tuple[int, int], most: int = 500, now_ms: int = 0
) -> list[Acquired]:
    return part.acquire(member, batches, Spec(most), LIMITS, now_ms)


class TestAcquiring:
    def test_complete_batches_until_the_limit(self) -> None:
        part = SharePartition(0)
        assert take(part, "a", (0, 9), (10, 19), (20, 29), most=15) == [
            Acquired(0, 19, 1),
        ]
        assert part.next_offset() == 20

    def test_strictly_no_more_than_the_limit(self) -> None:
        part = SharePartition(0)
        spec = Spec(4, strict=True)
        assert part.acquire("a", [(0, 9)], spec, LIMITS, 0) == [Acquired(0, 3, 1)]
        assert part.acquire("b", [(0, 9)], spec, LIMITS, 0) == [Acquired(4, 7, 1)]

    def test_no_member_gets_what_another_has(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        assert take(part, "b", (0, 9), (10, 19)) == [Acquired(10, 19, 1)]

    def test_a_delivery_count_stays_at_the_largest_that_an_answer_holds(self) -> None:
        part = SharePartition(0, [Range(0, 4, DeliveryState.AVAILABLE, 2**15 - 1)])
        assert take(part, "a", (0, 4)) == [Acquired(0, 0, 2**15 - 1)]  # poison records go out one by one

    def test_offsets_missing_in_the_log_are_passed_over(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 4), (10, 14))
        acknowledge(part, "a", 0, 4, ACCEPT)
        assert part.start_offset == 10

    def test_a_batch_that_ends_at_the_start_offset_is_acquired(self) -> None:
        assert take(SharePartition(4), "a", (0, 4)) == [Acquired(4, 4, 1)]

    def test_new_records_only_while_there_is_room(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 99))
        assert not part.may_acquire(LIMITS)
        assert take(part, "b", (100, 109)) == []
        acknowledge(part, "a", 0, 49, RELEASE)
        assert part.may_acquire(LIMITS)
        assert take(part, "b", (0, 99), (100, 109)) == [Acquired(0, 49, 2)]


class TestPortions:
    """What was given together comes back together, and less of it when it comes back often."""

    LIMITS = Limits(lock_ms=30_000, delivery_count=5, records=100)
    ALL = Spec(500)

    def again(self, part: SharePartition, spec: Spec = ALL) -> list[Acquired]:
        return part.acquire("a", [(first, first + 7) for first in range(0, 32, 8)], spec, self.LIMITS, 0)

    def test_new_records_are_acquired_in_portions(self) -> None:
        reported = self.again(SharePartition(0), Spec(500, 10))
        assert reported == [Acquired(0, 15, 1), Acquired(16, 31, 1)]
        assert self.again(SharePartition(0), Spec(10, 500)) == [Acquired(0, 15, 1)]

    def test_released_neighbours_stay_apart(self) -> None:
        part = SharePartition(0)
        self.again(part, Spec(500, 10))
        part.release("a", self.LIMITS, 0)
        assert self.again(part) == [Acquired(0, 15, 2), Acquired(16, 31, 2)]

    def test_each_of_the_last_deliveries_is_smaller(self) -> None:
        part = SharePartition(0)
        for count in (1, 2, 3):
            assert self.again(part) == [Acquired(0, 31, count)]
            part.release("a", self.LIMITS, 0)
        assert [self.again(part), self.again(part)] == [[Acquired(0, 15, 4)], [Acquired(16, 31, 4)]]
        part.release("a", self.LIMITS, 0)
        assert [self.again(part), self.again(part)] == [[Acquired(0, 0, 5)], [Acquired(1, 1, 5)]]

    def test_records_with_many_deliveries_are_acquired_singly(self) -> None:
        part = SharePartition(0)
        for _ in range(3):
            self.again(part, Spec(1, 500))
            part.release("a", self.LIMITS, 0)
        assert self.again(part) == [Acquired(0, 3, 4)]
        assert self.again(part) == [Acquired(4, 7, 4)]
        assert self.again(part) == [Acquired(8, 31, 1)]

    def test_portions_are_what_was_stored(self) -> None:
        stored = [Range(0, 7, DeliveryState.AVAILABLE, 1), Range(8, 15, DeliveryState.AVAILABLE, 1)]
        part = SharePartition(0, stored)
        assert self.again(part) == [Acquired(0, 7, 2), Acquired(8, 15, 2), Acquired(16, 31, 1)]


class TestAcknowledging:
    def test_the_start_moves_over_what_is_done(self) -> None:
        part = SharePartition(5)
        take(part, "a", (5, 14))
        acknowledge(part, "a", 8, 9, ACCEPT)
        assert part.start_offset == 5
        acknowledge(part, "a", 5, 7, ACCEPT, REJECT, GAP)
        assert part.start_offset == 10
        acknowledge(part, "a", 10, 14, ACCEPT)
        assert (part.start_offset, part.end_offset, part.next_offset()) == (15, 14, 15)

    def test_released_records_are_delivered_again_and_counted(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 3, 5, RELEASE)
        assert part.next_offset() == 3
        assert take(part, "b", (0, 9)) == [Acquired(3, 5, 2)]

    def test_a_record_that_was_delivered_too_often_is_archived(self) -> None:
        part = SharePartition(0)
        for _ in range(LIMITS.delivery_count):
            take(part, "a", (0, 0))
            acknowledge(part, "a", 0, 0, RELEASE)
        assert part.start_offset == 1

    def test_a_renewed_lock_lasts_longer(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 0), now_ms=0)
        renewal = [AcknowledgedBatch(0, 0, [RENEW])]
        part.acknowledge("a", renewal, LIMITS, 20_000, renewing=True)
        assert part.take_changes() is None, "a lock is not stored"
        assert not part.expire(LIMITS, 40_000)
        assert part.expire(LIMITS, 50_000)

    @pytest.mark.parametrize(
        ("member", "first", "last", "kinds", "code"),
        [
            ("b", 0, 4, (ACCEPT,), ErrorCode.INVALID_RECORD_STATE),
            ("a", 3, 12, (ACCEPT,), ErrorCode.INVALID_REQUEST),
            ("a", 20, 21, (ACCEPT,), ErrorCode.INVALID_REQUEST),
            ("a", 0, 4, (ACCEPT, ACCEPT), ErrorCode.INVALID_REQUEST),
            ("a", 0, 4, (9,), ErrorCode.INVALID_REQUEST),
            ("a", 4, 0, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_a_member_cannot_acknowledge_records_that_it_has_not_acquired(
        self, member: str, first: int, last: int, kinds: tuple[int, ...], code: ErrorCode
    ) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        with pytest.raises(KafkaError) as error:
            acknowledge(part, member, first, last, *kinds)
        assert error.value.code is code
        assert part.next_offset() == 10

    def test_an_acknowledgement_that_ends_at_the_start_offset_counts(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 0, 3, ACCEPT)
        acknowledge(part, "a", 0, 4, ACCEPT)
        assert part.start_offset == 5

    def test_twice_is_refused_but_what_is_long_done_is_not(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 5, 9, ACCEPT)
        with pytest.raises(KafkaError, match="INVALID_RECORD_STATE"):
            acknowledge(part, "a", 5, 9, ACCEPT)
        acknowledge(part, "a", 0, 4, ACCEPT)
        acknowledge(part, "a", 0, 4, ACCEPT)


class TestLocks:
    def test_records_not_acknowledged_in_time_are_free_again(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9), now_ms=1000)
        assert part.next_deadline_ms() == 31_000
        assert not part.expire(LIMITS, 30_999)
        assert part.expire(LIMITS, 31_000)
        assert take(part, "b", (0, 9)) == [Acquired(0, 9, 2)]

    def test_a_session_that_ends_gives_back(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 4))
        take(part, "b", (5, 9))
        assert part.release("a", LIMITS, 0)
        assert take(part, "c", (0, 9)) == [Acquired(0, 4, 2)]

    def test_records_that_were_delivered_too_often_are_given_up_with_the_session(self) -> None:
        part = SharePartition(0)
        for count in range(1, LIMITS.delivery_count + 1):
            assert take(part, "a", (0, 0)) == [Acquired(0, 0, count)]
            part.release("a", LIMITS, 0)
        assert part.start_offset == 1

    def test_overlapping_acknowledgements_are_refused(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 4))
        batches = [AcknowledgedBatch(0, 2, [ACCEPT]), AcknowledgedBatch(2, 3, [ACCEPT])]
        with pytest.raises(KafkaError) as caught:
            part.acknowledge("a", batches, LIMITS, 0)
        assert caught.value.code == ErrorCode.INVALID_RECORD_STATE
        assert part.start_offset == 0

    @pytest.mark.parametrize("bounds", [((3, 4), (0, 2)), ((0, 3), (1, 2))])
    def test_batches_must_be_in_order(self, bounds: tuple[tuple[int, int], ...]) -> None:
        """As in KafkaApis.validateAcknowledgementBatches."""
        part = SharePartition(0)
        take(part, "a", (0, 4))
        with pytest.raises(KafkaError) as caught:
            part.acknowledge("a", [AcknowledgedBatch(*each, [ACCEPT]) for each in bounds], LIMITS, 0)
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        assert part.start_offset == 0

    def test_only_a_renew_request_renews(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 4))
        renewal = [AcknowledgedBatch(0, 4, [AcknowledgeType.RENEW])]
        with pytest.raises(KafkaError) as caught:
            part.acknowledge("a", renewal, LIMITS, 0)
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        part.acknowledge("a", renewal, LIMITS, 500, renewing=True)
        assert part.next_deadline_ms() == 500 + LIMITS.lock_ms

    def test_a_group_may_forbid_renewal(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 4))
        mixed = [AcknowledgedBatch(0, 1, [ACCEPT]), AcknowledgedBatch(2, 4, [RENEW])]
        with pytest.raises(KafkaError, match="not enabled for the group") as caught:
            part.acknowledge("a", mixed, LIMITS._replace(renewal=False), 500, renewing=True)
        assert caught.value.code == ErrorCode.INVALID_RECORD_STATE
        assert part.start_offset == 0
        assert part.next_deadline_ms() == LIMITS.lock_ms


class TestState:
    def test_a_partition_is_rebuilt_from_what_was_written(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 2, 3, ACCEPT)
        acknowledge(part, "a", 6, 7, RELEASE)
        changes = part.take_changes()
        assert changes is not None
        start, ranges = changes
        again = SharePartition(start, sorted(ranges, key=lambda each: each.first))
        assert again.next_offset() == 0
        assert take(again, "b", (0, 9)) == [
            Acquired(0, 1, 1),
            Acquired(4, 5, 1),
            Acquired(6, 7, 2),
            Acquired(8, 9, 1),
        ]

    def test_acquiring_writes_nothing(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        assert part.take_changes() is None

    def test_a_log_that_lost_its_beginning(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        part.archive_before(4)
        assert part.start_offset == 4
        acknowledge(part, "a", 0, 9, ACCEPT)
        assert part.start_offset == 10

    def test_a_log_that_lost_more_than_was_in_flight(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 3))
        part.archive_before(8)
        assert part.next_offset() == 8
        assert take(part, "a", (8, 9)) == [Acquired(8, 9, 1)]


def test_only_delays_bound_the_number_of_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.control.share.share_partition.MAX_RANGES", 3)
    part = SharePartition(0)
    for number in range(4):
        take(part, f"m{number}", (number, number))
    assert not part.is_scattered
    part.use_delay(0)
    assert part.is_scattered


class TestWriting:
    def test_the_start_offset_is_that_before_the_changes(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 0, 3, ACCEPT)
        assert part.take_changes() == (0, [Range(0, 3, DeliveryState.ACKNOWLEDGED, 1)])
        assert (part.start_offset, part.take_changes()) == (4, None)
        acknowledge(part, "a", 4, 5, ACCEPT)
        assert part.take_changes() == (4, [Range(4, 5, DeliveryState.ACKNOWLEDGED, 1)])

    def test_changes_after_a_new_log_start_begin_there(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        part.archive_before(5)
        acknowledge(part, "a", 5, 9, ACCEPT)
        assert part.take_changes() == (5, [Range(5, 9, DeliveryState.ACKNOWLEDGED, 1)])

    def test_the_log_start_is_written_with_the_next_change(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        part.archive_before(5)
        assert part.take_changes() is None
        acknowledge(part, "a", 5, 6, ACCEPT)
        assert part.take_changes() == (5, [Range(5, 6, DeliveryState.ACKNOWLEDGED, 1)])


class TestRollingBack:
    def test_a_start_that_could_not_be_written_is_taken_again(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        acknowledge(part, "a", 0, 4, ACCEPT)
        part.take_ended()
        part.take_changes()
        acknowledge(part, "a", 5, 9, ACCEPT)
        ended, changes = part.take_ended(), part.take_changes()
        assert changes == (5, [Range(5, 9, DeliveryState.ACKNOWLEDGED, 1)])
        part.roll_back(ended, changes[1])
        acknowledge(part, "a", 5, 9, ACCEPT)
        assert part.take_changes() == changes

    def test_two_changes_that_could_not_be_written_are_both_undone(self) -> None:
        """The start offset had passed the records of both."""
        part = SharePartition(0)
        take(part, "a", (0, 9))
        pending = []
        for first, last in ((0, 4), (5, 9)):
            acknowledge(part, "a", first, last, ACCEPT)
            pending.append((part.take_ended(), part.take_changes()))
        assert part.start_offset == 10
        for ended, changes in pending:
            assert changes is not None
            part.roll_back(ended, changes[1])
        acknowledge(part, "a", 0, 9, RELEASE)
        assert take(part, "b", (0, 9)) == [Acquired(0, 9, 2)]

    def test_a_renewed_lock_stays_renewed(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        part.acknowledge("a", [AcknowledgedBatch(0, 9, [RENEW])], LIMITS, 5000, renewing=True)
        part.roll_back(part.take_ended(), [])
        assert part.next_deadline_ms() == 5000 + LIMITS.lock_ms

    def test_records_that_are_held_again_stay_the_batch_of_their_first_delivery(self) -> None:
        part = SharePartition(0)
        take(part, "a", (0, 9))
        take(part, "a", (10, 19))
        acknowledge(part, "a", 0, 9, ACCEPT)
        ended, changes = part.take_ended(), part.take_changes()
        assert changes is not None
        part.roll_back(ended, changes[1])
        part.release("a", LIMITS, 0)
        assert take(part, "b", (0, 9), (10, 19), most=5) == [Acquired(0, 9, 2)]
