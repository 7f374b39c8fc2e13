"""The sticky task assignor: tasks stay where their state is, as far as the load stays even (Kafka's
"sticky").

Active tasks go to their previous owner, else to a member with a standby, else to the process with
the least load per member. A standby is never in the process that has the active task or another
standby of it.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from msgspec import Struct, field

from kbroker.control.groups.streams_group.tasks import TaskId, Tasks, TaskSet
from kbroker.protocol.slices import in_order, paced


class AssignedMember(Struct, frozen=True):
    """A member in the assignor: its process and its target so far."""

    member_id: str
    process_id: str
    had: TaskSet


class Work(Struct, frozen=True):
    """tasks: number of tasks by subtopology id; stateful: those that may have standby tasks."""

    tasks: Mapping[str, int]
    stateful: frozenset[str]


class _Process(Struct):
    """Members of one process and what has been given to each so far."""

    active: dict[str, list[TaskId]] = field(default_factory=dict)
    standby: dict[str, list[TaskId]] = field(default_factory=dict)
    held: set[TaskId] = field(default_factory=set)
    _order: list[tuple[int, str]] = field(default_factory=list)
    """A heap of members by their count, or a former one: it only grows."""

    def add_member(self, member_id: str) -> None:
        self.active[member_id] = []
        self.standby[member_id] = []
        heappush(self._order, (0, member_id))

    def count(self, member_id: str) -> int:
        return len(self.active[member_id]) + len(self.standby[member_id])

    @property
    def load(self) -> float:
        return len(self.held) / len(self.active)

    def least_loaded(self) -> str:
        while True:
            count, member_id = self._order[0]
            if count == self.count(member_id):
                return member_id
            heapreplace(self._order, (self.count(member_id), member_id))


class _Quota:
    """Maximum tasks of a member. It shrinks when members have reached it, so that the rest is
    spread evenly, too."""

    __slots__ = ("_members", "_tasks", "limit")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.limit = -(-tasks // members)

    def reached(self, count: int) -> None:
        """A member has this number of tasks now."""
        if count == self.limit and self._members > 1:
            self._tasks -= count
            self._members -= 1
            self.limit = -(-self._tasks // self._members)


class _Assignment:
    """One run of the assignor."""

    def __init__(self, members: Iterable[AssignedMember], work: Work, standbys: int) -> None:
        self.process_of: dict[str, str] = {}
        self.processes: dict[str, _Process] = {}
        self.had_active: dict[TaskId, str] = {}
        self.had_standby: dict[TaskId, list[str]] = {}
        for member in paced(sorted(members, key=lambda each: each.member_id)):
            self.process_of[member.member_id] = member.process_id
            self.processes.setdefault(member.process_id, _Process()).add_member(member.member_id)
            for task in _each(member.had.active):
                self.had_active[task] = member.member_id
            for task in _each(member.had.standby):
                self.had_standby.setdefault(task, []).append(member.member_id)
        self._order = [(0.0, process_id) for process_id in paced(self.processes)]
        heapify(self._order)
        self.work = work
        self.standbys = standbys
        active = sum(work.tasks.values())
        copies = sum(count for key, count in work.tasks.items() if key in work.stateful) * standbys
        self.active_quota = _Quota(active, len(self.process_of))
        self.total_quota = _Quota(active + copies, len(self.process_of))

    def run(self) -> dict[str, TaskSet]:
        self._assign_active()
        if self.standbys:
            self._assign_standby()
        return {
            member_id: TaskSet(
                _grouped(self.processes[process].active[member_id]),
                _grouped(self.processes[process].standby[member_id]),
            )
            for member_id, process in paced(self.process_of.items())
        }

    def _assign_active(self) -> None:
        found = [(each, key) for key, count in self.work.tasks.items() for each in paced(range(count))]
        waiting = self._take([TaskId(key, each) for each, key in paced(in_order(found))])
        for key, partition in paced(in_order(waiting)):
            task = TaskId(key, partition)
            process = self.processes[self._least_loaded_process()]
            self._give(process, process.least_loaded(), task, active=True)

    def _take(self, tasks: list[TaskId]) -> list[TaskId]:
        """Give tasks to members that had them, then to members with a standby; the others are
        left."""
        rest = []
        for task in paced(tasks):
            member_id = self.had_active.get(task)
            if member_id is not None and self._process(member_id).count(member_id) < self.active_quota.limit:
                self._give(self._process(member_id), member_id, task, active=True)
            else:
                rest.append(task)
        left = []
        for task in paced(rest):
            member_id = self._least_loaded(self.had_standby.get(task, ()), self.active_quota.limit, task)
            if member_id is None:
                left.append(task)
            else:
                self._give(self._process(member_id), member_id, task, active=True)
        return left

    def _assign_standby(self) -> None:
        tasks = [
            TaskId(key, each)
            for key, count in self.work.tasks.items()
            if key in self.work.stateful
            for each in range(count)
        ]
        waiting: list[TaskId] = []
        for task in paced(sorted(tasks, reverse=True)):
            for copy in range(self.standbys):
                former = [
                    *self.had_standby.get(task, ()),
                    *([self.had_active[task]] if task in self.had_active else []),
                ]
                member_id = self._least_loaded(former, self.total_quota.limit, task)
                if member_id is None:
                    waiting += [task] * (self.standbys - copy)
                    break
                self._give(self._process(member_id), member_id, task, active=False)
        for task in paced(waiting):
            holders = []
            while self._order and task in self.processes[self._least_loaded_process()].held:
                holders.append(heappop(self._order))
            if self._order:  # else fewer processes than copies: Kafka leaves the rest out, too
                process = self.processes[self._least_loaded_process()]
                self._give(process, process.least_loaded(), task, active=False)
            for each in holders:
                heappush(self._order, each)

    def _least_loaded_process(self) -> str:
        """The process with the least load per member, which only grows, so that entries of the heap
        are corrected when they come first."""
        while True:
            load, process_id = self._order[0]
            if load == self.processes[process_id].load:
                return process_id
            heapreplace(self._order, (self.processes[process_id].load, process_id))

    def _least_loaded(self, candidates: Iterable[str], quota: int, task: TaskId) -> str | None:
        """The least loaded previous owner that is below the quota and does not have the task."""
        free = [
            each
            for each in candidates
            if task not in self._process(each).held and self._process(each).count(each) < quota
        ]
        load: Callable[[str], tuple[float, int, str]] = lambda each: (  # noqa: E731
            self._process(each).load,
            self._process(each).count(each),
            each,
        )
        return min(free, key=load) if free else None

    def _process(self, member_id: str) -> _Process:
        return self.processes[self.process_of[member_id]]

    def _give(self, process: _Process, member_id: str, task: TaskId, *, active: bool) -> None:
        (process.active if active else process.standby)[member_id].append(task)
        process.held.add(task)
        (self.active_quota if active else self.total_quota).reached(process.count(member_id))


def assign_sticky(members: Iterable[AssignedMember], work: Work, standbys: int) -> dict[str, TaskSet]:
    """Tasks of every member; empty without members."""
    known = list(members)
    return _Assignment(known, work, standbys).run() if known else {}


def _each(tasks: Tasks) -> Iterable[TaskId]:
    return (TaskId(key, partition) for key, partitions in tasks.items() for partition in sorted(partitions))


def _grouped(tasks: Iterable[TaskId]) -> Tasks:
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology, set()).add(task.partition)
    return {key: frozenset(partitions) for key, partitions in sorted(found.items())}
