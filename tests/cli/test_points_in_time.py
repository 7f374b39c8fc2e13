"""Times and durations as people write them."""

import pytest

from kbroker.cli.failures import UsageFailed
from kbroker.cli.points_in_time import MAX_MS, format_time, parse_duration_ms, parse_time_ms

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("PT1H30M", 5_400_000),
        ("P1DT1S", 86_401_000),
        ("PT0.5S", 500),
    ],
)
def test_durations_are_parsed(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "1h later", "-1h", "1x"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageFailed, match="not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("1234", 1234),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:00.250Z", 250),
        ("1h", NOW_MS - 3_600_000),
        ("-1h", NOW_MS - 3_600_000),
        ("1h ago", NOW_MS - 3_600_000),
    ],
)
def test_points_in_time_are_utc_unless_they_say_otherwise(text: str, expected: int) -> None:
    assert parse_time_ms(text, NOW_MS) == expected


def test_a_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(UsageFailed, match="expected 2026"):
        parse_time_ms("yesterday", NOW_MS)


def test_a_time_in_seconds_is_refused_with_its_milliseconds() -> None:
    with pytest.raises(UsageFailed, match=r"'1767225600' is a time in seconds: .* 1767225600000$"):
        parse_time_ms("1767225600", NOW_MS)
    assert parse_time_ms("999999999", NOW_MS) == 999_999_999
    assert parse_time_ms("10000000000", NOW_MS) == 10_000_000_000


@pytest.mark.parametrize(("text", "day"), [("2026", "2026-01-01"), ("20260131", "2026-01-31")])
def test_a_year_or_a_day_is_not_read_as_milliseconds(text: str, day: str) -> None:
    with pytest.raises(UsageFailed, match=f"'{text}' is a year or a day, not milliseconds: expected {day}$"):
        parse_time_ms(text, NOW_MS)
    for other in ("1234", "1969", "3000", "20261331"):
        assert parse_time_ms(other, NOW_MS) == int(other)


def test_times_are_shown_in_utc() -> None:
    assert format_time(1250) == "1970-01-01T00:00:01.250Z"
    assert format_time(-1) == "-"


def test_a_time_after_the_year_9999_is_shown_in_milliseconds() -> None:
    assert format_time(MAX_MS).startswith("9999-12-31T23:59:59.99")
    assert format_time(MAX_MS + 1) == "253402300800000"
    assert format_time((1 << 63) - 1) == "9223372036854775807"
