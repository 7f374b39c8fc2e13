"""Amounts of bytes."""

from kbroker.cli.sizes import size


def test_sizes_are_short() -> None:
    assert [size(value) for value in (0, 999, 1000, 99_960, 123_456_789, None)] == [
        "0 B", "999 B", "1.0 kB", "100 kB", "123 MB", "-",
    ]  # fmt: skip


def test_a_unit_is_left_before_four_digits_are_shown() -> None:
    assert [size(value) for value in (999.4, 999.5, 99_949, 99_950, 999_499, 999_500)] == [
        "999 B", "1.0 kB", "99.9 kB", "100 kB", "999 kB", "1.0 MB",
    ]  # fmt: skip
    assert [size(value) for value in (1.5e12, 1e15, 12.3e18)] == ["1.5 TB", "1.0 PB", "12300 PB"]
