"""The ends of syncs reach the leaders that wait for them."""

from collections.abc import Callable

import pytest

from kbroker.io.replication import following as module
from kbroker.ipc.layout import SlotFlag
from tests.io.replication.following_scene import OWN, Scene

Make = Callable[..., Scene]


def test_a_leader_is_woken_by_each_sync_until_its_durable_topics_copy_is_on_disk(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its acknowledgement waited for the next check, up to half a second."""
    case, woken = scene(flags=SlotFlag.DURABLE), list[int]()
    case.follow()
    monkeypatch.setattr(module, "wake_process", lambda shared, process: woken.append(process))
    leader = case.shared.worker_process(0)

    def wakes() -> list[int]:
        woken.clear()
        case.following.synced()
        return list(woken)

    assert wakes() == []
    case.write(b"a")
    case.following.pull()
    assert [wakes(), wakes()] == [[leader], [leader]]
    case.own.partition.durability.flush()
    assert [wakes(), wakes()] == [[leader], []]
    case.write(b"b")
    case.following.pull()
    case.following.forget(OWN)
    assert wakes() == []


def test_a_copy_that_waits_for_no_disk_wakes_no_leader_after_a_sync(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, woken = scene(), list[int]()
    case.write(b"a")
    case.follow()
    monkeypatch.setattr(module, "wake_process", lambda shared, process: woken.append(process))
    case.following.synced()
    assert woken == []
