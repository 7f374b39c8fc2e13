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
