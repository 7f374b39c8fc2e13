import math

import pytest

from tuning.option_values import speed_of
from tuning.quantity import WrongQuantity, parse_bytes, parse_rate, parse_seconds, show_bytes, show_seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("200MB", 200_000_000), ("1.5GiB", 3 << 29), ("2 kb", 2000), ("3Ti", 3 << 40)],
)
def test_bytes_have_decimal_and_binary_units(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("200MB/s", 2e8), ("200MB", 2e8), ("10Gbit/s", 1.25e9), ("0/s", 0)]
)
def test_rates_are_of_bytes_or_bits(text: str, value: float) -> None:
    assert parse_rate(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("10Gbit/s", 1.25e9), ("80", 10), ("10000000000", 1.25e9), ("1MB/s", 1e6), (None, None)],
)
def test_a_bare_number_is_bits_of_a_network(text: str | None, value: float | None) -> None:
    assert speed_of("nic", text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("3d", 259200), ("12h", 43200), ("90", 90), ("250ms", 0.25), ("2min", 120)]
)
def test_times_have_units(text: str, value: float) -> None:
    assert parse_seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "MB", "12 parsecs", "-3d", "1e9"])
def test_a_text_that_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(WrongQuantity, match="such as"):
        parse_seconds(text)
    with pytest.raises(WrongQuantity, match="such as"):
        parse_bytes(text)


def test_values_are_shown_with_three_digits() -> None:
    assert [show_bytes(each) for each in (0, 999, 2.147e9, 30.24e12)] == [
        "0 B",
        "999 B",
        "2.15 GB",
        "30.2 TB",
    ]
    assert [show_seconds(each) for each in (2e-4, 40, 259200, math.inf)] == [
        "0.2 ms",
        "40 s",
        "3 d",
        "forever",
    ]
