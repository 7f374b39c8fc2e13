"""Numbers and durations in texts of others."""

import pytest

from kbroker.config.setting import LONG_MAX
from kbroker.config.whole_numbers import duration_ms, whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("65535", 65535), ("0" * 5000 + "9", 9)])
def test_ascii_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "--5", "+1", " 1", "1_0", "1.0", "x", "9" * 5000])
def test_no_other_text_is_a_number(text: str) -> None:
    assert whole_number(text) is None


def test_a_number_has_a_bound() -> None:
    assert whole_number(str(LONG_MAX)) == LONG_MAX
    assert whole_number(str(LONG_MAX + 1)) is None
    assert whole_number("65536", 65535) is None


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2.5S", 86_402_500),
        ("p1d", 86_400_000),
        ("PT1,000999999S", 1000),
        ("P+1D", 86_400_000),
        ("PT.5S", None),
        (f"PT{LONG_MAX}S", LONG_MAX * 1000),
        (f"PT{LONG_MAX + 1}S", None),
        (f"P{LONG_MAX}D", None),
        ("PT" + "9" * 5000 + "S", None),
        ("P٣D", None),
        ("-PT1S", None),
        ("P", None),
        ("PT", None),
        ("", None),
    ],
)
def test_a_duration_is_what_java_takes(text: str, milliseconds: int | None) -> None:
    assert duration_ms(text) == milliseconds
