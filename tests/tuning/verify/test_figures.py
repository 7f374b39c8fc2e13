"""Figures of a turn, as they are shown."""

import pytest

from tuning.verify.figures import FIGURES, Figure


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (0.999, "0.999"),
        (1.0, "1.00"),
        (9.994, "9.99"),
        (10.0, "10.0"),
        (99.94, "99.9"),
        (100.0, "100"),
        (-12.34, "-12.3"),
        (12345.6, "12,346"),
    ],
)
def test_a_value_has_three_digits(value: float, shown: str) -> None:
    assert Figure("k", "t", "ms", more_is_better=False).show(value) == f"{shown} ms"


def test_only_throughput_is_better_the_more_there_is() -> None:
    assert {each.unit for each in FIGURES if each.more_is_better} == {"MB/s"}
    assert not any(each.more_is_better for each in FIGURES if each.unit != "MB/s")
    assert len({each.key for each in FIGURES}) == len(FIGURES)
