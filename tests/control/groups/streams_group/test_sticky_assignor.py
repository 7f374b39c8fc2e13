"""The sticky task assignor: every task once, an even load, copies in other processes, little
moves."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.groups.streams_group.sticky_assignor import AssignedMember, Work, assign_sticky
from kbroker.control.groups.streams_group.tasks import TaskSet

Assignment = dict[str, TaskSet]


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, str], Work, int]:
    processes = draw(st.integers(1, 4))
    members = {
        f"m{index}": f"p{draw(st.integers(0, processes - 1))}" for index in range(draw(st.integers(1, 6)))
    }
    tasks = {str(key): draw(st.integers(1, 8)) for key in range(draw(st.integers(1, 3)))}
    stateful = frozenset(key for key in tasks if draw(st.booleans()))
    return members, Work(tasks, stateful), draw(st.integers(0, 2))


def run(members: dict[str, str], work: Work, standbys: int, had: Assignment | None = None) -> Assignment:
    given_before = had or {}
    return assign_sticky(
        [
            AssignedMember(name, process, given_before.get(name, TaskSet()))
            for name, process in members.items()
        ],
        work,
        standbys,
    )


def active(tasks: TaskSet) -> set[tuple[str, int]]:
    return {(key, each) for key, partitions in tasks.active.items() for each in partitions}


def standby(tasks: TaskSet) -> set[tuple[str, int]]:
    return {(key, each) for key, partitions in tasks.standby.items() for each in partitions}


def every(work: Work) -> list[tuple[str, int]]:
    return sorted((key, each) for key, count in work.tasks.items() for each in range(count))


@given(groups())
def test_every_task_has_one_active_member_and_copies_lie_in_other_processes(
    group: tuple[dict[str, str], Work, int],
) -> None:
    members, work, standbys = group
    found = run(members, work, standbys)
    assert sorted(task for tasks in found.values() for task in active(tasks)) == every(work)
    processes = len(set(members.values()))
    for task in every(work):
        holders = [members[name] for name, tasks in found.items() for _ in [0] if task in active(tasks)]
        holders += [members[name] for name, tasks in found.items() if task in standby(tasks)]
        assert len(holders) == len(set(holders))
        copies = min(standbys, processes - 1) if task[0] in work.stateful else 0
        assert len(holders) == 1 + copies


@given(groups())
def test_active_tasks_are_spread_evenly_over_members_of_equal_processes(
    group: tuple[dict[str, str], Work, int],
) -> None:
    members, work, standbys = group
    alone = {name: name for name in members}  # a process each
    found = run(alone, work, standbys)
    counts = [len(active(tasks)) for tasks in found.values()]
    assert max(counts) - min(counts) <= 1


@given(groups(), st.integers(1, 4))
def test_the_load_is_even_also_when_members_come(group: tuple[dict[str, str], Work, int], more: int) -> None:
    members, work, _ = group
    alone = {name: name for name in members}
    grown = alone | {f"new{index}": f"new{index}" for index in range(more)}
    counts = [len(active(tasks)) for tasks in run(grown, work, 0, run(alone, work, 0)).values()]
    assert max(counts) - min(counts) <= 1


@given(groups())
def test_nothing_moves_when_nothing_changed(group: tuple[dict[str, str], Work, int]) -> None:
    members, work, _ = group
    alone = {name: name for name in members}
    first = run(alone, work, 0)
    assert run(alone, work, 0, first) == first


@given(groups())
def test_remaining_members_keep_their_partitions_when_another_leaves(
    group: tuple[dict[str, str], Work, int],
) -> None:
    members, work, _ = group
    alone = {name: name for name in members}
    before = run(alone, work, 0)
    left = dict(list(alone.items())[1:])
    after = run(left, work, 0, before)
    for name in left:
        assert active(before[name]) <= active(after[name])


def test_a_copy_takes_over() -> None:
    members = {"a": "p1", "b": "p2", "c": "p3"}
    work = Work({"0": 3}, frozenset({"0"}))
    before = run(members, work, 1)
    copies = {task: name for name, tasks in before.items() for task in standby(tasks)}
    after = run({name: members[name] for name in ("b", "c")}, work, 1, before)
    (orphan,) = active(before["a"])
    if copies[orphan] in after:
        assert orphan in active(after[copies[orphan]])


def test_no_members_get_no_partitions() -> None:
    assert run({}, Work({"0": 3}, frozenset()), 1) == {}
