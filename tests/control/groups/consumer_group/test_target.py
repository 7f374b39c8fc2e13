"""The assignor of a group: the one that most members prefer, of those that the broker knows."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.target import known_assignors, preferred_assignor
from kbroker.control.groups.settings import GroupSettings

UNIFORM = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"
RANGE = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"


def table(*assignors: str) -> Any:
    return SimpleNamespace(settings=GroupSettings(consumer_assignors=assignors))


def preferred(settings: Any, *votes: str | None) -> str:
    members = {f"m{n}": ConsumerMember(f"m{n}", server_assignor=vote) for n, vote in enumerate(votes)}
    return preferred_assignor(settings, members)


@pytest.mark.parametrize(
    ("configured", "known"),
    [
        (("uniform", "range"), ["uniform", "range"]),
        (("range", "uniform"), ["range", "uniform"]),
        ((RANGE, UNIFORM), ["range", "uniform"]),
        ((UNIFORM, "uniform", "range", RANGE), ["uniform", "range"]),
        (("org.example.Other", "range"), ["range"]),
    ],
)
def test_assignors_have_short_names_in_the_order_of_the_setting(
    configured: tuple[str, ...], known: list[str]
) -> None:
    assert known_assignors(table(*configured)) == known


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ((), "uniform"),
        ((None, None), "uniform"),
        (("range", None, None), "range"),
        (("range", "uniform", "range"), "range"),
        (("range", "uniform", "uniform"), "uniform"),
        (("range", "uniform"), "range"),
        (("sticky", "sticky", "range"), "range"),
        (("sticky",), "uniform"),
    ],
)
def test_the_assignor_is_that_of_most_members(votes: tuple[str | None, ...], chosen: str) -> None:
    assert preferred(table("uniform", "range"), *votes) == chosen


def test_without_a_preference_the_first_of_the_broker_is_used() -> None:
    assert preferred(table("range", "uniform"), None) == "range"
    assert preferred(table("range"), "uniform", "uniform") == "range"
