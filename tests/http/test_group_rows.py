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
