"""Amounts of bytes and of things."""

from kbroker.cli.sizes import counted, size


def test_sizes_are_short() -> None:
    assert [size(value) for value in (0, 999, 1000, 99_960, 123_456_789, None)] == [
        "0 B", "999 B", "1.0 kB", "100 kB", "123 MB", "-",
    ]  # fmt: skip


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "group") for number in (0, 1, 2, 1000)] == [
        "0 groups", "1 group", "2 groups", "1,000 groups",
    ]  # fmt: skip
    assert counted(2, "batch", "batches") == "2 batches"
