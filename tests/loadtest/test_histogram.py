"""Histograms keep percentiles within their promise, and merge by adding."""

import numpy as np
import pytest

from loadtest.histogram import count, empty, percentile_ns


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
