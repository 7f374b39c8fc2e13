"""When the broker counts as alive and as ready."""

from pathlib import Path

import pytest

from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.metrics.slots import bind
from tests.http.scene import CONTROL, IO, NETWORK, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_all_is_well_when_every_process_has_started(scene: Scene) -> None:
    assert scene.health.not_alive() == []
    assert scene.health.not_ready() == []


def test_a_process_that_starts_makes_it_not_ready_but_alive(scene: Scene) -> None:
    scene.shared.processes[IO, ProcessLine.EPOCH] = 2
    assert scene.health.not_alive() == []
    assert scene.health.not_ready() == ["io-0 is starting"]


def test_without_news_from_control_it_is_not_ready(scene: Scene) -> None:
    scene.view.informed.clear()
    assert scene.health.not_ready() == ["no news from control yet"]


def test_recovering_partitions_make_it_not_ready(scene: Scene) -> None:
    for slot in scene.topic("orders", 3)[:2]:
        scene.shared.slots[slot, Slot.STATE] = SlotState.RECOVERING
    assert scene.health.not_ready() == ["being recovered: 2 partitions"]


def test_a_full_disk_makes_it_not_ready_but_alive(scene: Scene) -> None:
    scene.slots(IO).words[bind("kbroker_produce_refused_partitions")] = 3
    assert scene.health.not_alive() == []
    assert scene.health.not_ready() == ["a disk is full: produce is refused by 3 partitions"]


def test_an_offline_partition_does_not_hide_the_others(scene: Scene) -> None:
    scene.shared.slots[scene.topic("orders")[0], Slot.STATE] = SlotState.OFFLINE
    assert scene.health.not_ready() == []


def test_a_loop_that_hangs_is_not_alive(scene: Scene) -> None:
    beat = ProcessLine.HEARTBEAT_NS
    scene.shared.processes[CONTROL, beat] = int((scene.now - 5) * 1e9)
    scene.shared.processes[NETWORK, beat] = int((scene.now - 60) * 1e9)
    assert scene.health.not_alive() == ["network-0 has not moved for 60 s"]


def test_without_the_acceptor_it_is_not_alive(scene: Scene) -> None:
    scene.health._parent = lambda: 1
    assert scene.health.not_alive() == ["the acceptor is gone"]
