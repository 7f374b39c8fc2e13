"""Histograms: each time is in the bucket whose bounds hold it, and quantiles are as exact as a
bucket is wide."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.metrics import layout
from kbroker.metrics.bounds import EXPORTED, UPPER_NS, quantile_ns
from kbroker.metrics.histogram_kernel import bucket_of
from kbroker.metrics.slots import bind, private

WIDTH = 1 / (1 << layout.SUB_BUCKET_BITS)


@given(st.integers(-10, 10**13))
def test_a_time_is_in_the_bucket_that_spans_it(nanoseconds: int) -> None:
    bucket = bucket_of(nanoseconds)
    assert nanoseconds < UPPER_NS[bucket] + 1  # bounds are no whole ns below 3 us
    if bucket:
        assert nanoseconds > UPPER_NS[bucket - 1]


def test_bounds_grow_by_at_most_an_eighth() -> None:
    for lower, upper in pairwise(UPPER_NS[8:-1]):
        assert lower < upper <= lower * (1 + WIDTH) + 1e-6


@pytest.mark.parametrize("octave", range(20))
def test_exported_bounds_are_exact(octave: int) -> None:
    seconds, buckets = EXPORTED[octave]
    nanoseconds = round(seconds * 1e9)
    assert bucket_of(nanoseconds) == buckets - 1
    assert bucket_of(nanoseconds + 1) == buckets


@given(
    st.lists(st.integers(1000, 10**10), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 0.999])
)
def test_quantiles_are_right_within_a_bucket(times: list[int], quantile: float) -> None:
    slots = private()
    number = bind("kbroker_flush_seconds")
    for nanoseconds in times:
        slots.observe(number, nanoseconds)
    counts = list(slots.words[number : number + layout.HISTOGRAM_BUCKETS])
    exact = sorted(times)[math.ceil(quantile * len(times)) - 1]
    assert exact * (1 - WIDTH) - 1 <= quantile_ns(counts, quantile) <= exact * (1 + WIDTH) + 1
    assert slots.words[number + layout.HISTOGRAM_SUM] == sum(times)


def test_a_quantile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(quantile_ns([0] * layout.HISTOGRAM_BUCKETS, 0.5))


def test_merging_counts_is_the_same_as_counting_together() -> None:
    draw = random.Random(7)
    one, other, both = private(), private(), private()
    number = bind("kbroker_append_seconds")
    for slots in (one, other):
        for _ in range(500):
            nanoseconds = draw.randrange(10**9)
            slots.observe(number, nanoseconds)
            both.observe(number, nanoseconds)
    span = slice(number, number + layout.HISTOGRAM_WORDS)
    merged = [a + b for a, b in zip(one.words[span], other.words[span], strict=True)]
    assert merged == list(both.words[span])
