"""Tasks in three roles: a task in another role is another task."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.groups.streams_group.tasks import NONE_OWNED, OwnedTasks, TaskSet, tasks_of

OWNED = OwnedTasks({"a": {0: 5, 1: 6}}, {"b": frozenset((2,))}, {"c": frozenset((3,))})


def one(role: str, key: str, *partitions: int) -> TaskSet:
    return TaskSet(**{role: {key: frozenset(partitions)}})


@pytest.mark.parametrize(
    ("claimed", "meets", "covers"),
    [
        (TaskSet(), False, True),
        (one("active", "a", 0), True, True),
        (one("active", "a", 1, 2), True, False),
        (one("active", "a", 2), False, False),
        (one("active", "b", 2), False, False),
        (one("standby", "b", 2), True, True),
        (one("standby", "b", 2, 4), True, False),
        (one("standby", "a", 0), False, False),
        (one("warmup", "c", 3), True, True),
        (one("warmup", "c", 4), False, False),
        (one("warmup", "b", 2), False, False),
        (OWNED.plain, True, True),
    ],
)
def test_a_claim_is_of_the_same_role(claimed: TaskSet, meets: bool, covers: bool) -> None:
    assert (OWNED.meets(claimed), OWNED.covers(claimed)) == (meets, covers)


def test_one_role_is_enough_to_be_not_empty() -> None:
    assert TaskSet().is_empty
    assert NONE_OWNED.is_empty
    for role in ("active", "standby", "warmup"):
        assert not one(role, "a", 0).is_empty


def test_epochs_are_left_out_of_plain_tasks() -> None:
    assert OWNED.plain == TaskSet({"a": frozenset((0, 1))}, {"b": frozenset((2,))}, {"c": frozenset((3,))})


def test_partitions_of_a_subtopology_that_is_named_again_are_joined() -> None:
    named: Any = [
        SimpleNamespace(subtopology_id=key, partitions=partitions)
        for key, partitions in (("a", [1, 0]), ("b", []), ("a", [2]), ("c", [3]))
    ]
    assert tasks_of(named) == {"a": frozenset((0, 1, 2)), "c": frozenset((3,))}
    assert tasks_of(None) == {}
    roles: Any = SimpleNamespace(active_tasks=None, standby_tasks=named[:1], warmup_tasks=named[3:])
    assert TaskSet.of(roles) == TaskSet({}, {"a": frozenset((0, 1))}, {"c": frozenset((3,))})
