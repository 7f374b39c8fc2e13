"""Lag of groups from the slots of their partitions."""

from pathlib import Path

import pytest

from kbroker.http.group_lags import LogRanges
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
    rows = [*ranges.uncommitted(requested)]
    assert len(rows) == ranges.uncommitted_count(requested)
    by_partition = [ranges.lag(*place) or 0 for place in ranges.positions(requested, 99)]
    assert sum(by_partition) == (lag or 0)


def test_partitions_without_an_offset_are_bounded(scene: Scene) -> None:
    ranges = LogRanges(scene.shared, scene.view.directory)
    found = list(ranges.positions(group({"mail": {0: 1}}, 1, "orders"), 2))
    assert found == [("mail", 0, 1), ("orders", 0, None), ("orders", 1, None)]
