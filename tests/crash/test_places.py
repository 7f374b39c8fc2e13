"""The places of the crash matrix: a full run has been at all of them."""

import random
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kbroker.ipc.crash_point import POINTS
from tests.crash.places import ALL, CHOSEN, DEATHS, ELSEWHERE, OF_A_TIER, deaths, drawn, places

ROOT = Path(__file__).parents[2]


def test_a_full_run_dies_once_at_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOSEN, raising=False)
    monkeypatch.setenv(DEATHS, ALL)
    found = Counter(drawn(random.Random(1), places(), deaths()))
    assert found == {name: 1 for name in POINTS if not name.startswith(ELSEWHERE)}


def test_no_place_comes_again_before_the_others() -> None:
    found = list(drawn(random.Random(1), ["a", "b", "c"], 7))
    assert sorted(found[:3]) == sorted(found[3:6]) == ["a", "b", "c"]


def test_a_run_may_be_kept_to_some_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOSEN, "truncate,roll")
    monkeypatch.setenv(DEATHS, ALL)
    assert deaths() == len(places())
    assert {name.partition(":")[0] for name in places()} == {"truncate", "roll"}
    monkeypatch.setenv(DEATHS, "2")
    assert deaths() == 2


def test_a_tier_dies_at_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CHOSEN, DEATHS):
        monkeypatch.delenv(name, raising=False)
    assert deaths() == int(OF_A_TIER) < len(places())


@pytest.mark.parametrize("target", ["test-full", "test-crash"])
def test_full_runs_of_the_tests_are_at_all_places(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEATHS, raising=False)
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if "tests.tiers" in line)
    assert f"{DEATHS}={ALL} " in line
