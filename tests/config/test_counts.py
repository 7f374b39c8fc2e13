"""Numbers of things: one thing is not several."""

from kbroker.config.counts import counted


def test_one_thing_is_not_several() -> None:
    assert [counted(number, "group") for number in (0, 1, 2, 1000)] == [
        "0 groups", "1 group", "2 groups", "1,000 groups",
    ]  # fmt: skip
    assert counted(2, "batch", "batches") == "2 batches"
