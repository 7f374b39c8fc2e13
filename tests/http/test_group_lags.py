"""Lag of groups from the slots of their partitions."""

from pathlib import Path

import pytest

from kbroker.http.group_lags import LogRanges, topics_read
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from tests.http.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """orders: 10 to 100, 0 to 50, empty from 7; mail: 5 records."""
    made = Scene(tmp_path)
    for slot, (start, end) in zip(made.topic("orders", 3), ((10, 100), (0, 50), (7, 7)), strict=True):
        made.shared.slots[slot, [Slot.LOG_START, Slot.HIGH_WATERMARK]] = start, end
    made.shared.slots[made.topic("mail")[0], Slot.HIGH_WATERMARK] = 5
    return made


def group(offsets: dict[str, dict[int, int]], members: int = 1, *subscribed: str) -> GroupSummary:
    return GroupSummary("billing", "classic", "Stable", members, offsets, {}, subscribed)


@pytest.mark.parametrize(
    ("offsets", "members", "subscribed", "lag"),
    [
        ({"orders": {0: 60}}, 1, ["orders"], 40 + 50),
        ({"orders": {0: 60}}, 1, [], 40),  # assigned by hand: the others are not its partitions
        ({"orders": {0: 60}}, 0, [], 40 + 50),  # without members
        ({"orders": {0: 60}}, 0, ["mail"], 40 + 50),
        ({}, 2, ["orders", "mail"], 90 + 50 + 5),  # it has committed nothing yet
        ({"orders": {0: 200, 2: 0}}, 1, ["orders"], 50 + 7),
        ({"gone": {0: 3}, "orders": {9: 1, 1: 20}}, 1, ["orders", "no-such"], 30 + 90),
        ({"gone": {0: 3}}, 1, [], None),
        ({}, 0, [], None),
    ],
)
def test_a_group_lags_by_the_records_after_its_offsets(
    scene: Scene, offsets: dict[str, dict[int, int]], members: int, subscribed: list[str], lag: int | None
) -> None:
    requested = group(offsets, members, *subscribed)
    ranges = LogRanges(scene.shared, scene.view.directory)
    assert ranges.group_lag(requested) == lag
    rows, left_out = ranges.uncommitted([requested], 99)
    assert left_out == 0
    assert ranges.uncommitted([requested], 1) == (rows[:1], max(0, len(rows) - 1))
    for row in rows:
        assert ranges.lag_without_commit(requested, row.topic, row.partition) == row.lag
    by_partition = [ranges.lag(*place) or 0 for _, *place in ranges.positions([requested], 99)]
    assert sum(by_partition) == (lag or 0)


def test_a_share_group_lags_by_what_control_has_counted(scene: Scene) -> None:
    """It commits no offsets: all records would count from the log start."""
    sharing = GroupSummary("team", "share", "Stable", 1, {}, {}, ("orders", "mail"), {"orders": 7, "gone": 9})
    ranges = LogRanges(scene.shared, scene.view.directory)
    assert topics_read(sharing) == ["mail", "orders"]
    assert ranges.lag_of_topics(sharing) == {"orders": 7}
    assert ranges.group_lag(sharing) == 7
    assert ranges.uncommitted([sharing], 99) == ([], 0)


def test_partitions_without_an_offset_are_bounded_and_those_with_the_largest_lag(scene: Scene) -> None:
    ranges = LogRanges(scene.shared, scene.view.directory)
    first, second = group({"orders": {0: 20}}, 1, "mail"), group({"mail": {0: 1}}, 1, "orders")
    found = [(*place,) for _, *place in ranges.positions([first, second], 3)]
    assert found == [
        ("orders", 0, 20),
        ("mail", 0, 1),
        ("orders", 0, None),
        ("orders", 1, None),
        ("mail", 0, None),
    ]
    rows, left_out = ranges.uncommitted([first, second], 2)
    assert [(row.group is second, row.partition, row.lag) for row in rows] == [(True, 0, 90), (True, 1, 50)]
    assert left_out == 2


def places(scene: Scene, groups: list[GroupSummary], most: int) -> list[tuple[int, str, int]]:
    """(number of the group, topic, partition)."""
    ranges = LogRanges(scene.shared, scene.view.directory)
    rows, left_out = ranges.uncommitted(groups, most)
    assert left_out == len(ranges.uncommitted(groups, 1 << 20)[0]) - most
    return [
        (next(n for n, each in enumerate(groups) if each is row.group), row.topic, row.partition)
        for row in rows
    ]


def test_of_equal_lags_each_group_has_one_before_a_group_has_two(scene: Scene) -> None:
    for slot in scene.topic("even", 4):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 9
    found = places(scene, [group({}, 1, "even") for _ in range(3)], 5)
    assert found == [(n, "even", 0) for n in range(3)] + [(n, "even", 1) for n in range(2)]


def test_a_group_of_many_topics_has_no_more_than_another_one(scene: Scene) -> None:
    """Also without lag."""
    topics = [f"empty-{number}" for number in range(8)]
    for topic in topics:
        scene.topic(topic)
    scene.topic("one", 8)
    found = places(scene, [group({}, 1, *topics), group({}, 1, "one")], 6)
    assert found == [
        place for number in range(3) for place in ((0, f"empty-{number}", 0), (1, "one", number))
    ]


def test_a_partition_with_an_offset_or_of_another_topic_is_none_without_commit(scene: Scene) -> None:
    ranges = LogRanges(scene.shared, scene.view.directory)
    member = group({"orders": {0: 60}}, 1, "orders")
    assert ranges.lag_without_commit(member, "orders", 0) is None
    assert ranges.lag_without_commit(member, "mail", 0) is None
    assert ranges.lag_without_commit(member, "orders", 9) is None
    assert ranges.lag_without_commit(member, "orders", 1) == 50
