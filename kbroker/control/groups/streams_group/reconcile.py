"""Reconciliation: the next step of one member towards its target tasks (Kafka's streams
CurrentAssignmentBuilder).

A member first revokes tasks and confirms this by its heartbeat; only then it moves to the target's
epoch, with what it keeps and with what others have released. A process holds a task in one role at
a time.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from kbroker.control.groups.streams_group.member import MemberState, StreamsMember
from kbroker.control.groups.streams_group.tasks import (
    NONE_OWNED,
    EpochTasks,
    OwnedTasks,
    Tasks,
    TaskSet,
)
from kbroker.protocol.epochs import next_epoch
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced


class Holders(Protocol):
    """The processes that hold a task now."""

    def active_holder(self, subtopology: str, partition: int) -> str | None:
        """The process that works on it."""

    def is_held_by(self, process_id: str, subtopology: str, partition: int) -> bool:
        """Whether the process has the task, in any role."""


class IsFree(Protocol):
    """Whether a task may be taken."""

    def __call__(self, key: str, partition: int, /) -> bool: ...


class _Split(NamedTuple):
    """One role's tasks: kept, to be given up, free to be taken; unreleased: others still have
    some."""

    kept: dict[str, dict[int, int]]
    revoked: dict[str, dict[int, int]]
    free: dict[str, dict[int, int]]
    unreleased: bool


def reconcile(
    member: StreamsMember, target_epoch: int, target: TaskSet, claimed: TaskSet | None, holders: Holders
) -> StreamsMember:
    """The member after its next step, or the same when there is none.

    claimed: the member's tasks as reported, None if not in the heartbeat.
    Raises FENCED_MEMBER_EPOCH for a member in a state that this version does not know.
    """
    if member.state is MemberState.STABLE:
        if member.member_epoch == target_epoch:
            return member
        return _next(member, member.member_epoch, target_epoch, target, claimed, holders)
    if member.state is MemberState.UNREVOKED_TASKS:
        if claimed is None or member.pending_revocation.meets(claimed):
            return member
        return _next(member, next_epoch(member.member_epoch), target_epoch, target, claimed, holders)
    if member.state is MemberState.UNRELEASED_TASKS:
        return _next(member, member.member_epoch, target_epoch, target, claimed, holders)
    if claimed is None or not claimed.is_empty:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _next(member, target_epoch, target_epoch, target, claimed, holders)


def _next(
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: TaskSet,
    claimed: TaskSet | None,
    holders: Holders,
) -> StreamsMember:
    """Keep, revoke and add by the target; the member stays at `epoch` while it has to revoke."""
    process = member.process_id

    def active_is_free(key: str, partition: int) -> bool:
        return holders.active_holder(key, partition) is None and not holders.is_held_by(
            process, key, partition
        )

    def is_free(key: str, partition: int) -> bool:
        return not holders.is_held_by(process, key, partition)

    active = _split(member.tasks.active, target.active, target_epoch, active_is_free)
    standby = _split(_epochless(member.tasks.standby), target.standby, 0, is_free)
    warmup = _split(_epochless(member.tasks.warmup), target.warmup, 0, is_free)
    revoked = OwnedTasks(active.revoked, _plain(standby.revoked), _plain(warmup.revoked))
    kept = OwnedTasks(active.kept, _plain(standby.kept), _plain(warmup.kept))
    if not revoked.is_empty and (claimed is None or revoked.meets(claimed)):
        return _moved(member, epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
    unreleased = active.unreleased or standby.unreleased or warmup.unreleased
    state = MemberState.UNRELEASED_TASKS if unreleased else MemberState.STABLE
    tasks = OwnedTasks(
        _merged(active.kept, active.free),
        _plain(_merged(standby.kept, standby.free)),
        _plain(_merged(warmup.kept, warmup.free)),
    )
    return _moved(member, target_epoch, state, tasks, NONE_OWNED)


def _split(has: EpochTasks, assignment: Tasks, epoch: int, is_free: IsFree) -> _Split:
    kept: dict[str, dict[int, int]] = {}
    revoked: dict[str, dict[int, int]] = {}
    free: dict[str, dict[int, int]] = {}
    unreleased = False
    for key in paced(dict.fromkeys((*assignment, *has))):
        spec, own = assignment.get(key, frozenset()), has.get(key, {})
        if keeps := {partition: at for partition, at in own.items() if partition in spec}:
            kept[key] = keeps
        if loses := {partition: at for partition, at in own.items() if partition not in spec}:
            revoked[key] = loses
        missing = sorted(spec - keeps.keys())
        if found := [partition for partition in paced(missing) if is_free(key, partition)]:
            free[key] = dict.fromkeys(found, epoch)
        unreleased |= len(found) < len(missing)
    return _Split(kept, revoked, free, unreleased)


def _epochless(tasks: Tasks) -> EpochTasks:
    return {key: dict.fromkeys(partitions, 0) for key, partitions in tasks.items()}


def _plain(tasks: Mapping[str, Mapping[int, int]]) -> Tasks:
    return {key: frozenset(partitions) for key, partitions in tasks.items()}


def _merged(one: dict[str, dict[int, int]], other: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    merged = {key: dict(partitions) for key, partitions in one.items()}
    for key, partitions in other.items():
        merged.setdefault(key, {}).update(partitions)
    return merged


def _moved(
    member: StreamsMember, epoch: int, state: MemberState, tasks: OwnedTasks, revoked: OwnedTasks
) -> StreamsMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        tasks=tasks,
        pending_revocation=revoked,
    )
