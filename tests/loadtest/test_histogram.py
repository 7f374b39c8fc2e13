"""Histograms keep percentiles within their promise, and merge by adding."""

import numpy as np
import pytest

from loadtest.histogram import (
    BUCKETS,
    EDGES_NS,
    LOWEST_NS,
    MIDDLES_NS,
    PER_OCTAVE,
    count,
    empty,
    percentile_ns,
)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 0.999])
def test_percentiles_are_within_the_width_of_a_bucket(share: float) -> None:
    times = (np.random.default_rng(1).lognormal(14, 2, 100_000)).astype(np.int64) + 2000
    exact = np.quantile(times, share, method="inverted_cdf")
    assert percentile_ns(count(times), share) == pytest.approx(exact, rel=0.022)


def test_merging_is_adding() -> None:
    times = np.arange(1000, 5_000_000, 777)
    assert (count(times[:100]) + count(times[100:])).tolist() == count(times).tolist()


def test_extremes_are_kept_at_the_ends_and_nothing_is_lost() -> None:
    assert count(np.array([-5, 0, 1, 1 << 60])).sum() == 4
    assert np.isnan(percentile_ns(empty(), 0.5))


@pytest.mark.parametrize(
    ("time_ns", "bucket"),
    [
        (0, 0),
        (LOWEST_NS, 0),
        (2 * LOWEST_NS - 1, PER_OCTAVE - 1),
        (2 * LOWEST_NS, PER_OCTAVE),
        (4 * LOWEST_NS, 2 * PER_OCTAVE),
        (LOWEST_NS << 30, BUCKETS - 1),
        (1 << 62, BUCKETS - 1),
    ],
)
def test_a_time_is_counted_in_the_bucket_that_begins_at_it_or_below(time_ns: int, bucket: int) -> None:
    counts = count(np.array([time_ns]))
    assert np.flatnonzero(counts).tolist() == [bucket]
    assert len(counts) == BUCKETS


def test_a_bucket_is_shown_between_its_edges() -> None:
    assert len(EDGES_NS) == BUCKETS + 1
    assert np.all((EDGES_NS[:-1] < MIDDLES_NS) & (EDGES_NS[1:] > MIDDLES_NS))


@pytest.mark.parametrize(
    ("share", "bucket"), [(0.0, 3), (0.01, 3), (0.5, 3), (0.51, 7), (0.9, 7), (0.91, 9), (1.0, 9)]
)
def test_a_percentile_is_the_lowest_bucket_that_so_many_reach(share: float, bucket: int) -> None:
    counts = empty()
    counts[3], counts[7], counts[9] = 50, 40, 10
    assert percentile_ns(counts, share) == MIDDLES_NS[bucket]


def test_a_few_times_have_a_middle() -> None:
    counts = empty()
    counts[3] = counts[7] = counts[9] = 1
    assert percentile_ns(counts, 0.5) == MIDDLES_NS[7]
    assert percentile_ns(counts, 0.34) == MIDDLES_NS[7]
    assert percentile_ns(counts, 0.33) == MIDDLES_NS[3]
