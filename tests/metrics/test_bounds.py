"""Bounds of histogram buckets, and quantiles between them."""

import math
from itertools import pairwise

import pytest

from kbroker.metrics.bounds import EXPORTED, UPPER_NS, quantile_ns, upper_bound_ns
from kbroker.metrics.layout import HISTOGRAM_BUCKETS, SUB_BUCKETS

UNIT_NS = 3125 / 32


def counts(**buckets: int) -> list[int]:
    """Counts of buckets, named b0, b1 ..."""
    found = [0] * HISTOGRAM_BUCKETS
    for name, count in buckets.items():
        found[int(name[1:])] = count
    return found


@pytest.mark.parametrize(
    ("bucket", "units"), [(0, 1), (7, 8), (8, 9), (15, 16), (16, 18), (23, 32), (24, 36), (31, 64)]
)
def test_a_bound_is_a_number_of_units(bucket: int, units: int) -> None:
    assert upper_bound_ns(bucket) == units * UNIT_NS


def test_bounds_rise_and_double_with_each_octave() -> None:
    assert len(UPPER_NS) == HISTOGRAM_BUCKETS
    assert all(low < high for low, high in pairwise(UPPER_NS))
    assert UPPER_NS[-1] == math.inf
    assert math.isfinite(UPPER_NS[-2])
    for bucket in range(SUB_BUCKETS, HISTOGRAM_BUCKETS - 1 - SUB_BUCKETS):
        assert UPPER_NS[bucket + SUB_BUCKETS] == 2 * UPPER_NS[bucket]


def test_exported_bounds_count_the_buckets_up_to_them() -> None:
    assert [bound for bound, _ in EXPORTED] == pytest.approx([1e-4 * 2**octave for octave in range(20)])
    for bound, buckets in EXPORTED:
        assert UPPER_NS[buckets - 1] == pytest.approx(bound * 1e9)


def test_a_quantile_lies_between_the_bounds_of_its_bucket() -> None:
    low, high = UPPER_NS[10], UPPER_NS[11]
    found = counts(b11=4)
    assert quantile_ns(found, 0.0) == low
    assert quantile_ns(found, 0.5) == (low + high) / 2
    assert quantile_ns(found, 1.0) == high
    assert quantile_ns(counts(b0=2), 0.5) == UNIT_NS / 2


def test_a_quantile_is_of_the_bucket_that_reaches_its_rank() -> None:
    found = counts(b3=50, b20=40, b40=10)
    assert quantile_ns(found, 0.5) == UPPER_NS[3]
    assert UPPER_NS[19] < quantile_ns(found, 0.51) < UPPER_NS[20]
    assert quantile_ns(found, 0.9) == UPPER_NS[20]
    assert UPPER_NS[39] < quantile_ns(found, 0.91) < UPPER_NS[40]
    assert quantile_ns(found, 1.0) == UPPER_NS[40]


def test_the_last_bucket_has_only_a_lower_bound() -> None:
    found = [0] * HISTOGRAM_BUCKETS
    found[-1] = 5
    assert quantile_ns(found, 0.5) == UPPER_NS[-2]


def test_no_times_have_no_quantile() -> None:
    assert math.isnan(quantile_ns(counts(), 0.5))
