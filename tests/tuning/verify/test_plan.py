import pytest

from tests.tuning.verify.samples import broker_change, host_change
from tuning.verify.change import Choice, Omitted
from tuning.verify.decision import FEWEST_TURNS, MAX_TURNS
from tuning.verify.plan import MAX_LOAD_S, MIN_LOAD_S, OVERHEAD_S, plan, plan_text

THREE = Choice((broker_change("num.io.threads"), broker_change("num.network.threads"), host_change()))


@pytest.mark.parametrize("minutes", [1, 2, 5, 10, 60, 600])
@pytest.mark.parametrize("changes", [1, 2, 3])
def test_a_plan_stays_within_its_time(minutes: float, changes: int) -> None:
    made = plan(Choice(THREE.changes[:changes]), minutes * 60)
    assert made.seconds <= minutes * 60 + 0.01
    assert FEWEST_TURNS <= made.turns <= MAX_TURNS
    assert MIN_LOAD_S <= made.load_s <= MAX_LOAD_S


def test_changes_that_do_not_fit_are_named() -> None:
    made = plan(THREE, 60.0)
    assert made.changes == THREE.changes[:1]
    assert [each.what for each in made.omitted] == [change.label for change in THREE.changes[1:]]
    assert all("--minutes" in each.why for each in made.omitted)


def test_turns_become_more_before_they_become_longer() -> None:
    short, longer = plan(Choice(THREE.changes[:1]), 120.0), plan(Choice(THREE.changes[:1]), 3600.0)
    assert short.turns < longer.turns == MAX_TURNS
    assert longer.load_s == MAX_LOAD_S


def test_both_sides_get_the_same_number_of_turns_and_no_side_the_better_places() -> None:
    for minutes in (1, 2, 5, 60):
        order = plan(Choice(THREE.changes[:1]), minutes * 60).order()
        assert order[:4] == (False, True, True, False)
        assert sum(order) * 2 == len(order)
        places = [
            sum(place for place, with_it in enumerate(order) if with_it is side) for side in (False, True)
        ]
        assert abs(places[0] - places[1]) <= 1  # a drift of one turn at the most


def test_the_plan_in_words_has_the_time_the_place_and_every_change() -> None:
    made = plan(Choice(THREE.changes, (Omitted("vm.swappiness", "it is scarce"),)), 1800.0)
    reported = plan_text(made, "/data", 1 << 29)
    assert "/data" in reported
    assert "537 MB" in reported
    for change in THREE.changes:
        assert f"try   {change.label}" in reported
    assert "leave vm.swappiness: it is scarce" in reported
    assert "no change to try" in plan_text(plan(Choice(()), 60.0), "/data", 1)


def test_the_overhead_is_part_of_the_time() -> None:
    made = plan(Choice(THREE.changes[:1]), 60.0)
    assert made.seconds == (2 * made.turns + 1) * (made.load_s + OVERHEAD_S)
