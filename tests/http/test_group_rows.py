"""Groups on /metrics: committed offsets and lag."""

from pathlib import Path

import pytest

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.consumer_group.state import ConsumerGroup, ConsumerState
from kbroker.control.groups.share_group.state import ShareGroup, ShareState
from kbroker.control.groups.streams_group.state import StreamsGroup, StreamsState
from kbroker.http.group_progress import GroupLag
from kbroker.http.group_rows import STATES
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from tests.http.scene import Scene
from tests.peer.scrape import Scrape


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_group_lag_counts_to_the_high_watermark(scene: Scene) -> None:
    for slot, mark in zip(scene.topic("orders", 2), (100, 50), strict=True):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = mark
    scene.view.summaries = (
        GroupSummary("billing", "classic", "Stable", 2, {"orders": {0: 90, 1: 50}, "gone": {0: 3}}),
        GroupSummary("idle", "consumer", "Empty", 0, {}),
    )
    scrape = scene.scrape()
    group = {"consumergroup": "billing", "topic": "orders"}
    assert scrape.value("kafka_consumergroup_lag", **group, partition="0") == 10
    assert scrape.value("kafka_consumergroup_lag", **group, partition="1") == 0
    assert scrape.value("kafka_consumergroup_lag_sum", **group) == 10
    assert scrape.value("kafka_consumergroup_members", consumergroup="billing") == 2
    assert scrape.value("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    assert scrape.value("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert scrape.value("kbroker_groups", type="consumer", state="Empty") == 1


def test_a_state_without_groups_has_a_series(scene: Scene) -> None:
    """A graph of a series that ends would stay at its last value."""
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 2, {}),)
    assert scene.scrape().value("kbroker_groups", type="classic", state="Stable") == 1
    scene.view.summaries = (GroupSummary("billing", "classic", "Empty", 0, {}),)
    scrape = scene.scrape()
    assert scrape.value("kbroker_groups", type="classic", state="Stable") == 0
    assert scrape.value("kbroker_groups", type="classic", state="Empty") == 1
    assert scrape.value("kbroker_groups", type="streams", state="NotReady") == 0


def test_each_state_of_a_group_is_known() -> None:
    found = {
        ClassicGroup.TYPE: ClassicState,
        ConsumerGroup.TYPE: ConsumerState,
        ShareGroup.TYPE: ShareState,
        StreamsGroup.TYPE: StreamsState,
    }
    assert {kind: set(states) for kind, states in STATES.items()} == {
        kind: set(states) for kind, states in found.items()
    }


def test_partitions_without_a_commit_lag_from_their_log_start(scene: Scene) -> None:
    for slot, (start, mark) in zip(scene.topic("orders", 3), ((0, 100), (20, 50), (0, 0)), strict=True):
        scene.shared.slots[slot, [Slot.LOG_START, Slot.HIGH_WATERMARK]] = start, mark
    scene.view.summaries = (
        GroupSummary("billing", "classic", "Stable", 2, {"orders": {0: 90}}, {}, ("orders",)),
    )
    scrape = scene.scrape()
    place = {"group": "billing", "topic": "orders"}
    lags = [scrape.value("kbroker_group_lag", **place, partition=str(number)) for number in range(3)]
    assert lags == [10, 30, 0]
    assert scrape.value("kbroker_group_lag_sum", group="billing") == 40
    assert scrape.labels("kbroker_group_offset") == [{**place, "partition": "0"}]
    assert (
        scrape.value("kafka_consumergroup_current_offset_sum", consumergroup="billing", topic="orders") == 90
    )


def test_a_share_group_has_a_lag_and_no_offsets(scene: Scene) -> None:
    scene.shared.slots[scene.topic("orders")[0], Slot.HIGH_WATERMARK] = 100
    scene.view.summaries = (
        GroupSummary("team", "share", "Stable", 2, {}, {}, ("orders",), {"orders": 30}),
        GroupSummary("billing", "classic", "Stable", 1, {"orders": {0: 60}}),
    )
    scrape = scene.scrape()
    lags = {group: scrape.value("kbroker_group_lag_sum", group=group) for group in ("team", "billing")}
    assert lags == {"team": 30, "billing": 40}
    assert scrape.labels("kafka_consumergroup_current_offset_sum") == [
        {"consumergroup": "billing", "topic": "orders"}
    ]
    assert {each["group"] for each in scrape.labels("kbroker_group_lag")} == {"billing"}


def test_partitions_without_a_commit_are_bounded(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "3"})
    for slot in scene.topic("wide", 8):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    scene.view.summaries = tuple(
        GroupSummary(name, "consumer", "Stable", 1, {"wide": {0: 4}}, {}, ("wide",)) for name in ("a", "b")
    )
    scrape = scene.scrape()
    assert len(scrape.labels("kbroker_group_lag")) == 3
    assert scrape.value("kbroker_group_partitions_left_out") == 16 - 3
    assert scrape.value("kbroker_group_lag_sum", group="b") == 6 + 70


def test_of_each_group_the_latest_partitions_have_a_lag_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest lag of each group is among them, however late the others are."""
    scene = Scene(tmp_path, {"kbroker.metrics.details.max": "2"})
    for slot in scene.topic("wide", 4):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    offsets = {"wide": dict.fromkeys(range(4), 4)}
    scene.view.summaries = tuple(GroupSummary(name, "consumer", "Stable", 1, offsets) for name in ("a", "b"))

    def lag_of(group: str, _: str, partition: int) -> GroupLag:
        return GroupLag(1.0005 + partition + 100 * (group == "a"), 7, None)

    monkeypatch.setattr(scene.collector.progress, "lag_of", lag_of)
    scrape = scene.scrape()
    name = "kbroker_group_lag_seconds"
    shown = {
        (labels["group"], labels["partition"]): scrape.value(name, **labels) for labels in scrape.labels(name)
    }
    assert set(shown) == {("a", "2"), ("a", "3"), ("b", "2"), ("b", "3")}
    assert shown["b", "3"] == pytest.approx(4.0, abs=0.001)
    assert len(scrape.labels("kbroker_group_lag")) == 8


def places(scrape: Scrape, name: str) -> set[tuple[str, str]]:
    """(group, partition) of the series."""
    return {(labels["group"], labels["partition"]) for labels in scrape.labels(name)}


def members(name: str, *subscribed: str, offsets: dict[str, dict[int, int]] | None = None) -> GroupSummary:
    return GroupSummary(name, "consumer", "Stable", 1, offsets or {}, {}, subscribed)


def test_each_group_of_a_wide_topic_has_series_before_one_has_many(tmp_path: Path) -> None:
    """Its partitions have the same lag. Those that no member has committed go first."""
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "6"})
    for slot in scene.topic("wide", 8):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    names = ("a", "b", "c")
    scene.view.summaries = (
        *(members(name, "wide") for name in names),
        members("d", "wide", offsets={"wide": {5: 0}}),
    )
    scrape = scene.scrape()
    shown = {(name, "0") for name in (*names, "d")} | {("a", "1"), ("b", "1")}
    assert places(scrape, "kbroker_group_lag") == shown
    assert scrape.value("kbroker_group_partitions_left_out") == 4 * 8 - 6


@pytest.mark.parametrize("lag", [0, 7])
def test_each_group_with_commits_has_series_before_one_has_many(tmp_path: Path, lag: int) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "7"})
    for slot in scene.topic("wide", 8):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    offsets = {"wide": dict.fromkeys(range(8), 10 - lag)}
    scene.view.summaries = tuple(members(name, "wide", offsets=offsets) for name in "abc")
    scrape = scene.scrape()
    shown = {(name, number) for name in "abc" for number in "01"} | {("a", "2")}
    assert places(scrape, "kbroker_group_lag") == places(scrape, "kbroker_group_offset") == shown
    assert scrape.value("kbroker_group_partitions_left_out") == 3 * 8 - 7


def test_a_group_with_commits_has_series_beside_those_that_have_never_committed(tmp_path: Path) -> None:
    """With the same lag. Of a group with both, those without a commit go first."""
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "6"})
    for slot in scene.topic("wide", 8):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    scene.view.summaries = (
        members("both", "wide", offsets={"wide": dict.fromkeys(range(7), 0)}),
        members("commits", "wide", offsets={"wide": dict.fromkeys(range(8), 0)}),
        members("none", "wide"),
    )
    shown = {("both", "7"), ("both", "0"), ("commits", "0"), ("commits", "1"), ("none", "0"), ("none", "1")}
    assert places(scene.scrape(), "kbroker_group_lag") == shown


def test_the_largest_lags_without_commit_are_shown_whichever_group_has_them(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "3"})
    for topic, ends in (("small", (5, 6, 7)), ("large", (10, 900, 800))):
        for slot, end in zip(scene.topic(topic, 3), ends, strict=True):
            scene.shared.slots[slot, Slot.HIGH_WATERMARK] = end
    scene.view.summaries = (members("a", "small"), members("z", "large", offsets={"small": {0: 4}}))
    assert places(scene.scrape(), "kbroker_group_lag") == {("z", "0"), ("z", "1"), ("z", "2")}


def test_shown_partitions_stay_while_lags_are_nearly_the_same(tmp_path: Path) -> None:
    """With a committed offset and without one."""
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "4"})
    slots = scene.topic("wide", 8)
    scene.view.summaries = (
        members("a", "wide"),
        members("b", offsets={"wide": dict.fromkeys(range(8), 0)}),
    )
    seen = set()
    for turn in range(8):
        for slot in slots:
            scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 100 + (3 * slot + 5 * turn) % 8
        seen.add(frozenset(places(scene.scrape(), "kbroker_group_lag")))
    assert len(seen) == 1
    scene.shared.slots[slots[:4], Slot.HIGH_WATERMARK] = 1000
    scene.shared.slots[slots[4:6], Slot.HIGH_WATERMARK] = 2000
    assert places(scene.scrape(), "kbroker_group_lag") == {(name, n) for name in "ab" for n in "45"}


def test_partitions_with_a_lag_in_seconds_stay_while_lags_are_nearly_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.details.max": "2"})
    for slot in scene.topic("wide", 6):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    scene.view.summaries = (members("a", offsets={"wide": dict.fromkeys(range(6), 4)}),)
    seconds: dict[int, float] = {}

    def lag_of(_: str, __: str, partition: int) -> GroupLag:
        return GroupLag(seconds[partition], 7, None)

    monkeypatch.setattr(scene.collector.progress, "lag_of", lag_of)
    seen = set()
    for turn in range(6):
        seconds.update({partition: 100.0 + (5 * partition + turn) % 6 for partition in range(6)})
        seen.add(frozenset(places(scene.scrape(), "kbroker_group_lag_seconds")))
    assert len(seen) == 1
    (shown,) = seen
    other = next(partition for partition in range(6) if ("a", str(partition)) not in shown)
    seconds[other] = 1000.0
    assert ("a", str(other)) in places(scene.scrape(), "kbroker_group_lag_seconds")


def test_without_lag_partitions_with_a_committed_offset_go_first(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "2"})
    scene.topic("empty", 4)
    scene.view.summaries = (members("a", "empty"), members("z", "empty", offsets={"empty": {2: 0, 3: 0}}))
    assert places(scene.scrape(), "kbroker_group_lag") == {("z", "2"), ("z", "3")}


def test_a_group_without_members_is_late_only_where_it_has_committed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for slot in scene.topic("orders", 3):
        scene.shared.slots[slot, Slot.HIGH_WATERMARK] = 10
    offsets = {"orders": {1: 4}}
    scene.view.summaries = (
        members("active", "orders", offsets=offsets),
        GroupSummary("idle", "classic", "Empty", 0, offsets),
    )
    monkeypatch.setattr(scene.collector.progress, "lag_of", lambda *_: GroupLag(5.0, 7, None))
    scrape = scene.scrape()
    late = places(scrape, "kbroker_group_lag_seconds")
    assert late == {("active", "0"), ("active", "1"), ("active", "2"), ("idle", "1")}
    assert {("idle", number) for number in "012"} <= places(scrape, "kbroker_group_lag")


def test_the_groups_with_the_largest_lag_have_a_lag_in_bytes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "1"})
    scene.shared.slots[scene.topic("orders")[0], Slot.HIGH_WATERMARK] = 100
    scene.view.summaries = tuple(
        members(name, offsets={"orders": {0: offset}}) for name, offset in (("a", 99), ("m", 10), ("z", 90))
    )
    scene.scrape()
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    scrape = scene.scrape()
    for name in ("sum", "bytes"):
        assert scrape.labels(f"kbroker_group_lag_{name}") == [{"group": "m"}]
    assert scrape.labels("kbroker_group_catch_up_seconds") == [{"group": "m"}]
