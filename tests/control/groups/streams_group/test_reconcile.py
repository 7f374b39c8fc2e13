"""The next step of a member of a streams group towards its target tasks."""

from typing import Any

import pytest

from kbroker.control.groups.streams_group.member import MemberState, StreamsMember
from kbroker.control.groups.streams_group.reconcile import reconcile
from kbroker.control.groups.streams_group.tasks import NONE_OWNED, OwnedTasks, TaskSet
from kbroker.protocol.errors import ErrorCode, KafkaError

EPOCH = 8
"""The epoch of the target; the member is at 5."""


class Held:
    """active: process by task; in_any_role: tasks of the member's own process."""

    def __init__(self, active: dict[tuple[str, int], str] | None = None, *own: tuple[str, int]) -> None:
        self._active = active or {}
        self._own = own

    def active_holder(self, subtopology: str, partition: int) -> str | None:
        return self._active.get((subtopology, partition))

    def is_held_by(self, process_id: str, subtopology: str, partition: int) -> bool:
        assert process_id == "p"
        return (subtopology, partition) in self._own


def member(
    state: MemberState = MemberState.STABLE,
    tasks: OwnedTasks = NONE_OWNED,
    pending: OwnedTasks = NONE_OWNED,
) -> StreamsMember:
    return StreamsMember(
        "m", member_epoch=5, state=state, process_id="p", tasks=tasks, pending_revocation=pending
    )


def active(*partitions: int) -> TaskSet:
    return TaskSet({"a": frozenset(partitions)} if partitions else {})


def in_role(role: str, partition: int) -> OwnedTasks:
    """One task, of a role that has no epochs."""
    tasks: Any = {role: {"a": frozenset((partition,))}}
    return OwnedTasks(**tasks)


def step(
    before: StreamsMember, target: TaskSet, claimed: TaskSet | None = None, holders: Held | None = None
) -> StreamsMember:
    return reconcile(before, EPOCH, target, claimed, holders or Held())


def shown(after: StreamsMember) -> tuple[int, int, MemberState, OwnedTasks, OwnedTasks]:
    epochs = after.member_epoch, after.previous_member_epoch
    return (*epochs, after.state, after.tasks, after.pending_revocation)


def test_a_member_at_the_epoch_of_the_target_has_no_step() -> None:
    before = member(tasks=OwnedTasks({"a": {0: 5}}))
    assert reconcile(before, 5, active(1), active(), Held()) is before


def test_free_tasks_are_taken_in_the_epoch_of_the_target() -> None:
    after = step(member(tasks=OwnedTasks({"a": {0: 3}})), active(0, 1))
    assert shown(after) == (8, 5, MemberState.STABLE, OwnedTasks({"a": {0: 3, 1: 8}}), NONE_OWNED)


@pytest.mark.parametrize(
    ("holders", "taken"),
    [
        (Held(), True),
        (Held({("a", 1): "other"}), False),
        (Held({}, ("a", 1)), False),
        (Held({("a", 0): "other"}, ("a", 0)), True),
    ],
)
def test_an_active_task_is_taken_when_no_process_works_on_it_and_the_own_one_has_it_in_no_role(
    holders: Held, taken: bool
) -> None:
    after = step(member(), active(1), holders=holders)
    if taken:
        assert (after.state, after.tasks) == (MemberState.STABLE, OwnedTasks({"a": {1: 8}}))
    else:
        assert (after.state, after.tasks) == (MemberState.UNRELEASED_TASKS, NONE_OWNED)
    assert after.member_epoch == EPOCH


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_other_roles_are_taken_beside_a_process_that_works_on_the_task(role: str) -> None:
    target = TaskSet(**{role: {"a": frozenset((1,))}})
    after = step(member(), target, holders=Held({("a", 1): "other"}))
    assert (after.state, after.tasks) == (MemberState.STABLE, in_role(role, 1))
    waiting = step(member(), target, holders=Held({}, ("a", 1)))
    assert (waiting.state, waiting.tasks) == (MemberState.UNRELEASED_TASKS, NONE_OWNED)


@pytest.mark.parametrize("claimed", [None, active(0, 1), active(0)])
def test_a_member_keeps_its_epoch_until_it_has_revoked(claimed: TaskSet | None) -> None:
    after = step(member(tasks=OwnedTasks({"a": {0: 3, 1: 4}})), active(1, 2), claimed)
    kept, revoked = OwnedTasks({"a": {1: 4}}), OwnedTasks({"a": {0: 3}})
    assert shown(after) == (5, 5, MemberState.UNREVOKED_TASKS, kept, revoked)


def test_tasks_that_the_member_has_given_up_already_are_not_waited_for() -> None:
    after = step(member(tasks=OwnedTasks({"a": {0: 3, 1: 4}})), active(1, 2), active(1))
    assert shown(after) == (8, 5, MemberState.STABLE, OwnedTasks({"a": {1: 4, 2: 8}}), NONE_OWNED)


@pytest.mark.parametrize("role", ["standby", "warmup"])
def test_tasks_of_other_roles_are_revoked_too(role: str) -> None:
    has = in_role(role, 0)
    after = step(member(tasks=has), TaskSet())
    assert shown(after) == (5, 5, MemberState.UNREVOKED_TASKS, NONE_OWNED, has)


def test_a_member_that_has_to_revoke_waits_for_its_report() -> None:
    before = member(MemberState.UNREVOKED_TASKS, OwnedTasks({"a": {1: 4}}), OwnedTasks({"a": {0: 3}}))
    assert step(before, active(1)) is before
    assert step(before, active(1), active(0)) is before
    after = step(before, active(1), active(1))
    assert shown(after) == (8, 5, MemberState.STABLE, OwnedTasks({"a": {1: 4}}), NONE_OWNED)


def test_a_member_that_has_more_to_revoke_is_moved_by_one_epoch() -> None:
    before = member(MemberState.UNREVOKED_TASKS, OwnedTasks({"a": {1: 4}}), OwnedTasks({"a": {0: 3}}))
    after = step(before, active(), active(1))
    assert shown(after) == (6, 5, MemberState.UNREVOKED_TASKS, NONE_OWNED, OwnedTasks({"a": {1: 4}}))


def test_released_tasks_are_taken_in_the_same_epoch() -> None:
    before = member(MemberState.UNRELEASED_TASKS, OwnedTasks({"a": {0: 3}}))
    after = reconcile(before, 5, active(0, 1), None, Held())
    assert shown(after) == (5, 5, MemberState.STABLE, OwnedTasks({"a": {0: 3, 1: 5}}), NONE_OWNED)


def test_a_member_in_a_state_of_a_later_version_rejoins_without_tasks() -> None:
    before = member(MemberState.UNKNOWN, OwnedTasks({"a": {0: 3}}))
    for claimed in (None, active(0)):
        with pytest.raises(KafkaError) as refused:
            step(before, active(0), claimed)
        assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = step(before, active(0, 1), TaskSet())
    assert (after.member_epoch, after.state) == (8, MemberState.STABLE)
    assert after.tasks == OwnedTasks({"a": {0: 3, 1: 8}})
