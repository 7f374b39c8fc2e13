"""Amounts of bytes."""

from kbroker.cli.sizes import size


def test_sizes_are_short() -> None:
    assert [size(value) for value in (0, 999, 1000, 99_960, 123_456_789, None)] == [
        "0 B", "999 B", "1.0 kB", "100 kB", "123 MB", "-",
    ]  # fmt: skip
