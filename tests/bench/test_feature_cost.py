"""The verdict about a cost follows the order of the pairs, and says when they do not decide."""

from bench.feature_cost import interval, kernel_row, row, verdict


def test_the_bounds_of_a_median_are_ranks() -> None:
    ratios = [1 + number / 1000 for number in range(20, 0, -1)]
    assert interval(ratios) == (1.006, 1.015)  # the 6th and the 15th of 20: 95.9 %
    assert interval(ratios[:6]) == (1.015, 1.020)
    assert interval(ratios[:3]) == (1.018, 1.020)  # too few for 95 %
    assert interval([1.5]) == (1.5, 1.5)


def test_a_cost_is_below_its_limit_above_it_or_not_decided() -> None:
    assert verdict((0.99, 1.009), 1.0) == "yes"
    assert verdict((1.011, 1.03), 1.0) == "no"
    assert verdict((0.99, 1.02), 1.0) == "not decided by these pairs"
    assert verdict((1.011, 1.03), 5.0) == "yes"


def test_a_row_has_medians_spread_and_verdict() -> None:
    pairs = [(1.005 + number / 10_000, 1.0) for number in range(20)]
    assert row("raw_50x5", pairs, 1.0) == (
        "| raw_50x5 | 1.006 µs | 1.000 µs | +0.6 % | +0.5 to +0.6 % | +0.5 to +0.6 % | yes |"
    )


def test_pairs_of_brokers_decide_nothing_about_what_kernels_do() -> None:
    assert row("fetch_4k", [(1.5, 1.0)] * 3, None).endswith("| by kernels |")


def test_a_row_of_kernels_has_nanoseconds_their_share_of_a_request_and_verdict() -> None:
    pairs = [(9.9, 2.0), (1.9, 2.0), (2.1, 2.0)]
    more = [10.0 + number / 10 for number in range(20)]
    head = "| raw_50x5 | 2.000 µs | +10.9 ns | +10.5 to +11.4 ns | +0.55 % | +0.53 to +0.57 % |"
    assert kernel_row("raw_50x5", pairs, more, 1.0) == f"{head} yes |"
    assert kernel_row("raw_50x5", pairs, more, 0.5) == f"{head} no |"
    assert kernel_row("raw_50x5", pairs, more, 0.55) == f"{head} not decided by these pairs |"
