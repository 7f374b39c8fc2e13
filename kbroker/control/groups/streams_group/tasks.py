"""Tasks of a Streams application: subtopology id and partition, in three roles."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

Tasks = Mapping[str, frozenset[int]]
"""Subtopology id -> partitions. No empty sets."""

EpochTasks = Mapping[str, Mapping[int, int]]
"""Subtopology id -> partition -> epoch in which the member got it. No empty mappings."""

NO_TASKS: Final[Tasks] = MappingProxyType({})
NO_EPOCH_TASKS: Final[EpochTasks] = MappingProxyType({})


class TaskId(NamedTuple):
    """One task."""

    subtopology: str
    partition: int


class TaskIdsLike(Protocol):
    """The tasks of one subtopology in messages and records."""

    subtopology_id: str
    partitions: list[int]


class TaskRolesLike(Protocol):
    """The tasks of one member in messages and records."""

    @property
    def active_tasks(self) -> Iterable[TaskIdsLike] | None: ...
    @property
    def standby_tasks(self) -> Iterable[TaskIdsLike] | None: ...
    @property
    def warmup_tasks(self) -> Iterable[TaskIdsLike] | None: ...


class InRoles:
    """Tasks of one member in their roles."""

    __slots__ = ()

    active: Mapping[str, Collection[int]]
    standby: Tasks
    warmup: Tasks

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class TaskSet(InRoles):
    """A member's target tasks, or the tasks that it reports."""

    active: Tasks = field(default_factory=lambda: NO_TASKS)
    standby: Tasks = field(default_factory=lambda: NO_TASKS)
    warmup: Tasks = field(default_factory=lambda: NO_TASKS)

    @classmethod
    def of(cls, ids: TaskRolesLike) -> "TaskSet":
        """The tasks of a message or record; null lists count as empty."""
        return cls(tasks_of(ids.active_tasks), tasks_of(ids.standby_tasks), tasks_of(ids.warmup_tasks))


@dataclass(frozen=True, slots=True)
class OwnedTasks(InRoles):
    """A member's current tasks, or its tasks pending revocation; active tasks have an assignment
    epoch (KIP-1251)."""

    active: EpochTasks = field(default_factory=lambda: NO_EPOCH_TASKS)
    standby: Tasks = field(default_factory=lambda: NO_TASKS)
    warmup: Tasks = field(default_factory=lambda: NO_TASKS)

    @property
    def plain(self) -> TaskSet:
        """The tasks without their epochs."""
        return TaskSet(
            {key: frozenset(epochs) for key, epochs in self.active.items()}, self.standby, self.warmup
        )

    def meets(self, claimed: TaskSet) -> bool:
        """Whether any of these tasks is claimed in the same role."""
        return (
            any(not each.isdisjoint(self.active.get(key, ())) for key, each in claimed.active.items())
            or any(not each.isdisjoint(self.standby.get(key, ())) for key, each in claimed.standby.items())
            or any(not each.isdisjoint(self.warmup.get(key, ())) for key, each in claimed.warmup.items())
        )

    def covers(self, claimed: TaskSet) -> bool:
        """Whether all claimed tasks are among these, in the same role."""
        return (
            all(each <= self.active.get(key, {}).keys() for key, each in claimed.active.items())
            and all(each <= self.standby.get(key, frozenset()) for key, each in claimed.standby.items())
            and all(each <= self.warmup.get(key, frozenset()) for key, each in claimed.warmup.items())
        )


NONE_OWNED: Final = OwnedTasks()


def tasks_of(ids: Iterable[TaskIdsLike] | None) -> Tasks:
    """Subtopology -> partitions, without subtopologies that have none."""
    found: dict[str, frozenset[int]] = {}
    for each in ids or ():
        if each.partitions:
            found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(
                each.partitions
            )
    return found
