"""The pause before a record is delivered again."""

import pytest

from kbroker.control.share.limits import Limits


@pytest.mark.parametrize(
    ("deliveries", "pause_ms"), [(1, 1000), (2, 2000), (3, 4000), (6, 32_000), (7, 60_000), (10_000, 60_000)]
)
def test_it_doubles_with_each_delivery_up_to_the_longest(deliveries: int, pause_ms: int) -> None:
    assert Limits(backoff_ms=1000).retry_at(deliveries, 5) == 5 + pause_ms


def test_there_is_none_without_the_setting_or_a_delivery() -> None:
    assert Limits().retry_at(3, 5) == 0
    assert Limits(backoff_ms=1000).retry_at(0, 5) == 0


def test_the_longest_pause_also_bounds_the_first() -> None:
    assert Limits(backoff_ms=1000, max_backoff_ms=10).retry_at(1, 5) == 15
