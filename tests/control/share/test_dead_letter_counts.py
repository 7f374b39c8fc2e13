"""Dead letters are counted by group and topic, their failures by reasons of a fixed set."""

import pytest

from kbroker.control.share.dead_letter_counts import REASONS, DeadLetterCounts
from kbroker.control.share.dead_offsets import Dead
from kbroker.metrics.labels import VALUES
from kbroker.metrics.slots import Slots, bind, private
from kbroker.protocol.errors import ErrorCode


def failures(slots: Slots) -> dict[str, int]:
    """By reason, those that happened."""
    numbers = {
        reason: bind("kbroker_dead_letter_failures_total", reason=reason) for reason in VALUES["reason"]
    }
    return {reason: slots.words[number] for reason, number in numbers.items() if slots.words[number]}


def test_a_series_begins_at_0_and_goes_with_its_group() -> None:
    counts = DeadLetterCounts(private())
    counts.expect("team", "orders")
    assert counts.written_of("team") == {"orders": 0}
    counts.written("team", "orders", 3)
    counts.written("team", "mail", 2)
    counts.expect("team", "orders")
    assert counts.written_of("team") == {"orders": 3, "mail": 2}
    assert counts.written_of("other") == {}
    counts.forget_group("team")
    assert counts.written_of("team") == {}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        *REASONS.items(),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "other"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "other"),
    ],
)
def test_every_error_has_a_reason_of_the_catalogue(code: ErrorCode, reason: str) -> None:
    slots = private()
    DeadLetterCounts(slots).failed(code)
    assert failures(slots) == {reason: 1}


def test_a_topic_that_may_not_be_used_is_a_reason() -> None:
    slots = private()
    DeadLetterCounts(slots).refused()
    assert failures(slots) == {"unusable_topic": 1}


def test_waiting_records_are_counted_and_a_successor_starts_over() -> None:
    slots = private()
    counts = DeadLetterCounts(slots)
    number = bind("kbroker_dead_letters_waiting")
    first, second = [Dead(0, 3, 1, "why"), Dead(7, 7, 1, "why")], [Dead(0, 0, 5, "why")]
    counts.wait(first)
    counts.wait(second)
    assert slots.words[number] == 6
    first.pop(0)
    counts.wait(first)
    assert slots.words[number] == 2
    counts.end(first)
    counts.end(first)
    assert slots.words[number] == 1
    DeadLetterCounts(slots)
    assert slots.words[number] == 0
