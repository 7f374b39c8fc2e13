"""Medians, ratios and verdicts of a comparison."""

from pathlib import Path

import pytest

from bench.results import Results, Sample, compare, dear_generators, failures, losses, ratio_of
from bench.scenario import Limit, Measure, Scenario
from bench.turn import Measures


def never_run(_: object) -> Measures:
    raise AssertionError("a comparison runs nothing")


RATE = Measure("rate", "rate", "requests/s", "higher", 1.5)
COST = Measure("cpu", "CPU", "µs", "lower", 0.5)
SHARE = Measure("share", "share", "", "higher", 0.85, absolute=True)
PLAIN = Measure("plain", "plain", "", "lower")
SCENARIO = Scenario("work", "some work", (RATE, COST, SHARE, PLAIN), never_run)


def sample(number: int, target: str, **figures: float) -> Sample:
    return Sample(number, target, "work", figures)


def test_the_ratio_is_that_of_the_medians_and_the_spread_that_of_the_rounds() -> None:
    samples = [
        *(sample(n, "kafka", rate=rate) for n, rate in ((1, 100.0), (2, 200.0), (3, 400.0))),
        *(sample(n, "kbroker", rate=rate) for n, rate in ((1, 300.0), (2, 380.0), (3, 390.0))),
    ]
    (row,) = compare(samples, [SCENARIO])
    assert (row.baseline, row.subject, row.ratio) == (200.0, 380.0, 1.9)
    assert row.spread == pytest.approx((390 / 400, 3.0))
    assert row.met is True


@pytest.mark.parametrize(
    ("measure", "kafka", "kbroker", "met"),
    [
        (RATE, 100.0, 150.0, True),
        (RATE, 100.0, 149.0, False),
        (COST, 10.0, 5.0, True),
        (COST, 10.0, 5.1, False),
        (SHARE, 0.1, 0.85, True),
        (SHARE, 0.1, 0.84, False),
        (PLAIN, 1.0, 100.0, None),
    ],
)
def test_a_goal_bounds_the_ratio_or_the_figure_itself(
    measure: Measure, kafka: float, kbroker: float, met: bool | None
) -> None:
    figures = [sample(1, "kafka", **{measure.key: kafka}), sample(1, "kbroker", **{measure.key: kbroker})]
    (row,) = compare(figures, [SCENARIO])
    assert row.met is met


def test_a_single_broker_has_figures_and_no_verdict() -> None:
    (row,) = compare([sample(1, "kafka", rate=7.0)], [SCENARIO])
    assert (row.baseline, row.subject, row.ratio, row.spread, row.met) == (7.0, None, None, None, None)


def test_a_goal_for_the_figure_itself_needs_no_peer() -> None:
    (row,) = compare([sample(1, "kbroker", share=0.9)], [SCENARIO])
    assert row.met is True


def test_a_failed_turn_is_no_figure_but_is_named() -> None:
    broken = Sample(2, "kbroker", "work", failure="offset 3 where 2 was due")
    rows = compare([sample(1, "kafka", rate=10.0), sample(1, "kbroker", rate=30.0), broken], [SCENARIO])
    assert [row.ratio for row in rows] == [3.0]
    assert failures([broken, sample(1, "kafka", rate=1.0)]) == [broken]


def test_no_ratio_to_nothing() -> None:
    assert ratio_of(3.0, 0.0) is None
    assert ratio_of(3.0, None) is None
    assert ratio_of(None, 3.0) is None
    assert ratio_of(0.0, 4.0) == 0.0


def test_results_come_back_from_their_file(tmp_path: Path) -> None:
    results = Results({"processor": "x"}, {"rounds": "3"}, [sample(1, "kafka", rate=1.5)], {}, [3, 8])
    results.save(tmp_path / "runs" / "one.json")
    assert Results.load(tmp_path / "runs" / "one.json") == results
    assert results.targets == ["kafka"]


def test_a_load_generator_that_costs_more_than_a_broker_is_named() -> None:
    client = Measure("client_cpu", "load generator CPU", "µs", "lower")
    broker = Measure("cpu_us", "broker CPU", "µs", "lower")
    scenarios = [Scenario(name, name, (broker, client), never_run) for name in ("cheap", "dear")]
    samples = [
        Sample(1, "kafka", "cheap", {"cpu_us": 20.0, "client_cpu": 5.0}),
        Sample(1, "kbroker", "cheap", {"cpu_us": 6.0, "client_cpu": 5.0}),
        Sample(1, "kafka", "dear", {"cpu_us": 20.0, "client_cpu": 5.0}),
        Sample(1, "kbroker", "dear", {"cpu_us": 4.0, "client_cpu": 5.0}),
    ]
    assert dear_generators(compare(samples, scenarios)) == ["dear"]


def never_limit(_: object) -> float:
    raise AssertionError("a comparison runs no loop")


@pytest.mark.parametrize(
    ("measure", "kafka", "kbroker", "goal", "met"),
    [(RATE, 0.1, 0.75, 0.7, True), (RATE, 0.1, 0.75, 0.8, False), (COST, 10.0, 4 / 3, None, None)],
)
def test_the_share_of_the_limit_is_that_of_the_same_turn(
    measure: Measure, kafka: float, kbroker: float, goal: float | None, met: bool | None
) -> None:
    limited = Scenario(
        "work", "work", (PLAIN, measure), never_run, limit=Limit(measure.key, "a loop", never_limit, goal)
    )
    samples = [
        sample(1, "kafka", **{measure.key: 100.0, "limit": 1000.0, "plain": 1.0}),
        sample(1, "kbroker", **{measure.key: 600.0, "limit": 800.0, "plain": 1.0}),
        sample(2, "kbroker", **{measure.key: 1500.0, "limit": 2000.0, "plain": 1.0}),
        sample(3, "kbroker", **{measure.key: 9.0}),
    ]
    plain, row = compare(samples, [limited])
    assert (plain.limit, plain.subject_share, plain.share_met) == (None, None, None)
    assert row.limit == 1000.0
    assert (row.baseline_share, row.subject_share) == pytest.approx((kafka, kbroker))
    assert row.share_met is met


def test_a_scenario_whose_loop_never_ran_has_no_share() -> None:
    limited = Scenario("work", "work", (RATE,), never_run, limit=Limit("rate", "a loop", never_limit, 0.5))
    (row,) = compare([sample(1, "kbroker", rate=7.0)], [limited])
    assert (row.limit, row.subject_share, row.share_met) == (None, None, None)


def test_losses_are_ordered_and_leave_out_the_load_generator() -> None:
    scenario = Scenario(
        "work", "work", (RATE, COST, Measure("client_cpu", "generator", "µs", "lower")), never_run
    )
    figures = [
        sample(1, "kafka", rate=100.0, cpu=1.0, client_cpu=1.0),
        sample(1, "kbroker", rate=90.0, cpu=3.0, client_cpu=9.0),
    ]
    rows = compare(figures, [scenario], {"work": "work of another size"})
    assert [row.measure.key for row in losses(rows)] == ["cpu", "rate"]
    assert {row.title for row in rows} == {"work of another size"}
    assert losses(compare(figures[:1], [scenario])) == []
