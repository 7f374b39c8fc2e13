"""Offsets in flight: their bounds, and the changes that must be written."""

import pytest

from kbroker.control.share.acknowledging import Ended
from kbroker.control.share.in_flight import InFlight
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.protocol.errors import ErrorCode, KafkaError

AVAILABLE, ACQUIRED = DeliveryState.AVAILABLE, DeliveryState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED


def test_offsets_between_stored_ranges_are_available() -> None:
    loaded = InFlight(5, [Range(0, 6, ACKNOWLEDGED, 1), Range(9, 10, ARCHIVED, 2)])
    assert (loaded.start_offset, loaded.end_offset) == (7, 10)
    assert list(loaded) == [Range(7, 8, AVAILABLE, 0), Range(9, 10, ARCHIVED, 2)]
    assert loaded.unfinished() == 2


def test_the_start_offset_is_written_one_change_later() -> None:
    records = InFlight(0)
    records.put(Range(0, 3, ACKNOWLEDGED, 1))
    records.advance()
    assert records.start_offset == 4
    assert records.take_changes() == (0, [Range(0, 3, ACKNOWLEDGED, 1)])
    assert records.take_changes() is None
    records.put(Range(6, 6, ACKNOWLEDGED, 1))
    assert records.take_changes() == (4, [Range(6, 6, ACKNOWLEDGED, 1)])


def test_states_of_this_process_alone_are_not_written() -> None:
    records = InFlight(0)
    records.put(Range(0, 3, ACQUIRED, 1, "m", 100), persisted=False)
    records.extend(5)
    records.hold_until(50, [Range(4, 5, AVAILABLE, 0)])
    assert records.take_changes() is None
    assert [each.deadline_ms for each in records] == [100, 50]


def test_an_undone_change_is_held_again_and_the_others_are_written_later() -> None:
    records = InFlight(0)
    held = Range(0, 1, ACQUIRED, 1, "m", 100)
    records.put(held, persisted=False)
    after = Range(0, 1, ACKNOWLEDGED, 1)
    records.put(after)
    records.skip(4, 4)
    assert records.start_offset == 2
    changes = records.take_changes()
    assert changes is not None
    assert records.undo([Ended(held, after)], changes[1]) == [(0, 1)]
    assert next(iter(records)) == held
    assert records.start_offset == 0
    assert records.take_changes() == (0, [Range(4, 4, ARCHIVED, 0)])


@pytest.mark.parametrize(
    ("member", "first", "last", "code"),
    [
        ("m", 0, 3, None),
        ("m", -5, 3, None),
        ("other", 0, 3, ErrorCode.INVALID_RECORD_STATE),
        ("m", 0, 5, ErrorCode.INVALID_RECORD_STATE),
        ("m", 0, 6, ErrorCode.INVALID_REQUEST),
        ("m", 6, 6, ErrorCode.INVALID_REQUEST),
    ],
)
def test_only_acquired_offsets_are_held(member: str, first: int, last: int, code: ErrorCode | None) -> None:
    records = InFlight(0)
    records.put(Range(0, 3, ACQUIRED, 1, "m", 100), persisted=False)
    records.extend(5)
    if code is None:
        records.check_held(member, first, last)
        return
    with pytest.raises(KafkaError) as raised:
        records.check_held(member, first, last)
    assert raised.value.code is code


def test_no_offset_is_held_when_none_is_in_flight() -> None:
    """Kafka has another error for an empty cache than for an offset after the cached ones."""
    with pytest.raises(KafkaError, match="not found in the cache") as raised:
        InFlight(5).check_held("m", 6, 7)
    assert raised.value.code is ErrorCode.INVALID_RECORD_STATE


def test_a_stored_range_that_ends_at_the_start_offset_counts() -> None:
    loaded = InFlight(5, [Range(0, 5, ACKNOWLEDGED, 1)])
    assert (loaded.start_offset, loaded.end_offset) == (6, 5)


def test_offsets_up_to_the_last_one_in_flight_are_skipped_and_extended_once() -> None:
    records = InFlight(0)
    records.extend(5)
    records.extend(5)
    records.skip(3, 5)
    assert list(records) == [Range(0, 2, AVAILABLE, 0), Range(3, 5, ARCHIVED, 0)]
    assert records.take_changes() == (0, [Range(3, 5, ARCHIVED, 0)])


def test_the_start_stays_before_offsets_without_a_state() -> None:
    records = InFlight(0)
    records.put(Range(2, 3, ACKNOWLEDGED, 1))
    records.advance()
    assert records.start_offset == 0


@pytest.mark.parametrize(("log_start", "firsts"), [(3, [2, 6]), (4, [6])])
def test_changes_below_the_log_start_are_not_written(log_start: int, firsts: list[int]) -> None:
    records = InFlight(0)
    records.put(Range(0, 9, ACQUIRED, 1, "m", 100), persisted=False)
    records.put(Range(2, 3, ACKNOWLEDGED, 1))
    records.put(Range(6, 7, ACKNOWLEDGED, 1))
    records.archive_before(log_start)
    changes = records.take_changes()
    assert changes is not None
    assert (changes[0], [each.first for each in changes[1]]) == (log_start, firsts)


@pytest.mark.parametrize(
    ("member", "first", "last", "reason"),
    [
        ("m", 0, 5, "not found in the cache"),
        ("m", 0, 6, "The last offset in request is past"),
        ("m", 5, 6, "The last offset in request is past"),
        ("m", 6, 6, "The first offset in request is past"),
        ("other", 0, 1, "Member is not the owner"),
        ("m", 2, 2, "The offset is not acquired"),
        ("", 2, 2, "The offset is not acquired"),
    ],
)
def test_each_reason_why_offsets_are_not_held_has_its_text(
    member: str, first: int, last: int, reason: str
) -> None:
    records = InFlight(0)
    records.put(Range(0, 1, ACQUIRED, 1, "m", 100), persisted=False)
    records.put(Range(2, 2, AVAILABLE, 1), persisted=False)
    records.put(Range(4, 5, ACQUIRED, 1, "m", 100), persisted=False)  # offset 3 has no state
    if last == 5:
        records.put(Range(2, 2, ACQUIRED, 1, "m", 100), persisted=False)
    with pytest.raises(KafkaError, match=reason):
        records.check_held(member, first, last)


def test_offsets_after_the_only_one_in_flight_are_an_invalid_request() -> None:
    records = InFlight(0)
    records.put(Range(0, 0, ACQUIRED, 1, "m", 100), persisted=False)
    records.check_held("m", 0, 0)
    with pytest.raises(KafkaError) as raised:
        records.check_held("m", 0, 1)
    assert raised.value.code is ErrorCode.INVALID_REQUEST
