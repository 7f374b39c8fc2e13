"""Two rounds of everything, further ones where rounds differ, nothing that the time is too short
for."""

from bench.results import Sample
from bench.scenario import Measure, Scenario
from bench.schedule import Schedule
from bench.turn import Measures

RATE = Measure("rate", "rate", "requests/s", "higher")
BOTH = ("kafka", "kbroker")


def never(_: object) -> Measures:
    raise AssertionError("a schedule runs nothing")


def scenario(name: str) -> Scenario:
    return Scenario(name, name, (RATE,), never)


A, B, C = scenario("a"), scenario("b"), scenario("c")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def play(
    schedule: Schedule, clock: Clock, seconds: dict[str, float], rates: dict[str, list[float]]
) -> list[str]:
    """Does what the schedule says; each turn takes the scenario's seconds. "1a" for a round of both
    brokers."""
    made = []
    for number, turn, missing in schedule:
        made.append(f"{number}{turn.name}" + ("" if len(missing) == 2 else f":{missing[0]}"))
        for target in missing:
            clock.now += seconds[turn.name]
            rate = rates.get(turn.name, [100.0])
            figures = {"rate": rate[(number - 1) % len(rate)], "turn_seconds": seconds[turn.name]}
            schedule.note(Sample(number, target, turn.name, figures))
    return made


def test_a_third_round_is_for_those_whose_two_differ_most_first() -> None:
    clock = Clock()
    schedule = Schedule((A, B, C), BOTH, 3, clock=clock)
    rates = {"a": [100.0, 112.0], "b": [100.0, 109.0], "c": [100.0, 60.0]}
    made = play(schedule, clock, dict.fromkeys("abc", 1.0), rates)
    assert made == ["1a", "1b", "1c", "2a", "2b", "2c", "3c", "3a"]
    assert schedule.left_out == []


def test_each_broker_comes_first_in_one_of_two_rounds() -> None:
    for scenarios in ((A, B), (A, B, C)):
        first: dict[str, list[str]] = {}
        for _, turn, missing in Schedule(scenarios, BOTH, 2):
            first.setdefault(turn.name, []).append(missing[0])
        assert [sorted(found) for found in first.values()] == [list(BOTH)] * len(scenarios)


def test_requested_rounds_are_a_bound() -> None:
    schedule = Schedule((A,), BOTH, 1, clock=(clock := Clock()))
    assert play(schedule, clock, {"a": 1.0}, {}) == ["1a"]


def test_samples_that_would_end_too_late_are_left_out_and_cheap_ones_come_first() -> None:
    clock = Clock()
    schedule = Schedule((A, B, C), BOTH, 3, budget_s=40, clock=clock)
    assert play(schedule, clock, {"a": 8.0, "b": 3.0, "c": 2.0}, {}) == ["1a", "1b", "1c", "2c", "2b"]
    assert schedule.left_out == [(2, "a")]
    assert clock.now <= 1040


def test_a_run_without_time_has_no_first_round_either() -> None:
    clock = Clock()
    schedule = Schedule((A, B), BOTH, 3, budget_s=5, clock=clock)
    assert play(schedule, clock, {"a": 3.0, "b": 3.0}, {}) == ["1a"]
    assert sorted(schedule.left_out) == [(1, "b"), (2, "a"), (2, "b")]


def test_a_taken_sample_is_not_taken_again() -> None:
    clock, seconds = Clock(), {"a": 1.0, "b": 1.0}
    whole = Schedule((A, B), BOTH, 2, clock=clock)
    play(whole, clock, seconds, {})
    for cut in range(len(whole.samples) + 1):
        rest = Schedule((A, B), BOTH, 2, done=whole.samples[:cut], clock=clock)
        made = play(rest, clock, seconds, {})
        assert rest.samples == whole.samples
        assert any(":" in turn for turn in made) == (cut % 2 == 1), "of a cut round, one broker"


def test_a_failed_turn_has_its_cost() -> None:
    clock = Clock()
    failed = [Sample(1, name, "a", {"turn_seconds": 30.0}, failure="no answer") for name in BOTH]
    schedule = Schedule((A,), BOTH, 2, budget_s=50, done=failed, clock=clock)
    assert play(schedule, clock, {"a": 30.0}, {}) == []


def test_a_failed_turn_is_not_made_again_and_has_no_say() -> None:
    clock = Clock()
    failed = [Sample(1, name, "a", failure="no answer") for name in BOTH]
    schedule = Schedule((A,), BOTH, 3, done=failed, clock=clock)
    assert play(schedule, clock, {"a": 1.0}, {}) == ["2a"]
