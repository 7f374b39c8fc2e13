"""Requests of syncs that cannot begin, and by control."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.append.rows import AppendRow, SyncRow, SyncState
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import SyncLog
from tests.io.append.drain_case import batch
from tests.io.durability_scene import FakeLogs, Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("begun", [False, True])
def test_a_sync_that_finds_no_descriptors_is_repeated_and_no_log_dir_fails(scene: Scene, begun: bool) -> None:
    if begun:
        FakeLogs.gone, FakeLogs.number = "folder", errno.EMFILE
    else:
        scene.logs.not_begun = [errno.EMFILE, errno.ENFILE]
    token = scene.append()
    if begun:
        scene.finish_sync()
        FakeLogs.gone = ""
    else:
        scene.durability.measure()
    assert (scene.case.outcomes(), scene.logs.failed) == ([], [])
    scene.durability.measure()
    scene.finish_sync()
    assert scene.case.outcomes() == [(token, 0, 0)]
    scene.durability.measure()
    assert scene.logs.synced == [1] * (1 + begun)


def test_a_sync_that_cannot_begin_is_an_error_of_its_log(scene: Scene) -> None:
    """It ended the IO worker."""
    scene.logs.not_begun = [errno.EIO]
    scene.append()
    assert scene.logs.failed == [(f"slot {scene.case.slot}", errno.EIO)]
    assert scene.case.drain.syncs[scene.case.slot, SyncRow.STATE] == SyncState.IDLE


def test_control_can_have_a_log_synced(scene: Scene) -> None:
    scene.case.words[Slot.FLAGS] = 0
    scene.case.push(batch())
    scene.case.drain.run()
    scene.durability.handlers[SyncLog](SyncLog(scene.case.slot))
    scene.finish_sync()
    assert scene.case.words[Slot.DURABLE] == 1


@pytest.mark.parametrize(("limit", "unflushed", "syncs"), [(1, 0, True), (2, 2, True), (2, 1, False)])
def test_a_log_that_has_reached_its_flush_messages_is_synced(
    scene: Scene, limit: int, unflushed: int, syncs: bool
) -> None:
    """As at its start after a kill: a retry waits for the disk, and no append may follow."""
    case = scene.case
    case.words[Slot.FLAGS] = 0
    case.push(batch())
    case.drain.run()
    case.row[AppendRow.FLUSH_RECORDS], case.row[AppendRow.UNFLUSHED_RECORDS] = limit, unflushed
    log: Any = SimpleNamespace(
        slot=case.slot,
        published=SimpleNamespace(is_durable=False),
        durability=SimpleNamespace(is_synced=False),
    )
    scene.durability.configured(log)
    assert (case.drain.syncs[case.slot, SyncRow.STATE] != SyncState.IDLE) == syncs
    assert case.row[AppendRow.SYNC_END] == (1 if syncs else 0)
    scene.logs.gate.set()
