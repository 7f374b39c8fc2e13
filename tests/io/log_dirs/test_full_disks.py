"""Logs on a full disk refuse appends until there is room."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.files.log_dir import LogDir
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.io.log_dirs.full_disks import REFUSED, ROOM_TO_HEAL, FullDisks
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import transaction_index
from kbroker.metrics.slots import private
from tests.io.node import Node

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Scene:
    """A log in a log dir whose room the test sets."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root, 1)
        self.room = 0
        self.failures: list[tuple[int, OSError]] = []
        folder: Any = SimpleNamespace(space=lambda: (1 << 40, self.room))
        dirs: dict[str, LogDir] = {str(root / "0"): folder}
        self.metrics = private()
        self.notified: list[tuple[int, int]] = []  # slots, and their segments' versions then
        drain: Any = SimpleNamespace(
            metrics=self.metrics, producers=SimpleNamespace(expiration_ms=1000), notify=self._notify
        )
        self.disks = FullDisks(
            drain, dirs, self.node.get, lambda slot, error: self.failures.append((slot, error))
        )

    def _notify(self, slot: int) -> None:
        self.notified.append((slot, int(self.node.logs[slot].partition.published.segments_version)))

    @property
    def state(self) -> int:
        return int(self.node.rows[0, AppendRow.STATE])

    @property
    def refused(self) -> int:
        return int(self.metrics.words[REFUSED])

    def refuse(self) -> bool:
        return self.disks.refuse_appends(self.node.logs[0].partition, FULL)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_log_refuses_appends_until_there_is_room(scene: Scene) -> None:
    assert scene.refuse()
    assert (scene.state, scene.refused) == (AppendState.DISK_FULL, 1)
    scene.room = ROOM_TO_HEAL - 1
    scene.disks.heal()
    assert (scene.state, scene.refused) == (AppendState.DISK_FULL, 1)
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert (scene.state, scene.refused) == (AppendState.OPEN, 0)
    assert scene.failures == []


def test_a_log_that_is_healed_has_as_few_in_sync_replicas_as_before(scene: Scene) -> None:
    """It took acks=all and moved its high watermark although they were below
    min.insync.replicas."""
    row = scene.node.rows[0]
    row[AppendRow.TOO_FEW], row[AppendRow.CUTS] = 1, 2
    scene.refuse()
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert (scene.state, row[AppendRow.TOO_FEW]) == (AppendState.OPEN, 1)
    assert row[AppendRow.CUTS] == 3, "a sync that began before does not count"


def test_a_log_that_is_healed_shows_no_reader_an_index_that_is_not_whole(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that finds another version of the segments after its reads gives no records. One that
    had begun before saw the aborted ones. It is woken when the index is whole, or it would wait for
    its time or the next append."""
    words = scene.node.logs[0].words
    version = int(words[Slot.SEGMENTS_VERSION])
    during, reset = list[int](), transaction_index.reset_index

    def watched(folder: str, base_offset: int) -> None:
        during.append(int(words[Slot.SEGMENTS_VERSION]))
        reset(folder, base_offset)

    monkeypatch.setattr(transaction_index, "reset_index", watched)
    scene.refuse()
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert during == [version + 1]
    assert words[Slot.SEGMENTS_VERSION] == version + 2
    assert scene.notified == [(0, version + 2)]


def test_a_log_is_not_online_while_it_is_healed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    words = scene.node.logs[0].words
    during, reset = list[int](), transaction_index.reset_index

    def watched(folder: str, base_offset: int) -> None:
        during.append(int(words[Slot.STATE]))
        reset(folder, base_offset)

    monkeypatch.setattr(transaction_index, "reset_index", watched)
    scene.refuse()
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert (during, words[Slot.STATE]) == ([SlotState.RECOVERING], SlotState.ONLINE)


@pytest.mark.parametrize(("refuses", "producers"), [(True, []), (False, [6])])
def test_producers_of_batches_that_were_not_written_are_forgotten_before_a_close(
    scene: Scene, refuses: bool, producers: list[int]
) -> None:
    log = scene.node.logs[0]
    log.producers.put(0, ProducerEntry(6, 0))
    if refuses:
        scene.refuse()
    scene.disks.forget_unwritten(log.partition)
    assert [entry.producer_id for entry in log.producers.entries(0)] == producers


def test_a_log_that_refuses_already_is_counted_once(scene: Scene) -> None:
    assert scene.refuse()
    assert not scene.refuse()
    assert scene.refused == 1


def test_a_paused_log_is_not_healed(scene: Scene) -> None:
    scene.refuse()
    scene.node.logs[0].partition.role.pause()
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert scene.refused == 1


def test_a_closed_log_is_not_counted_any_more(scene: Scene) -> None:
    scene.refuse()
    del scene.node.logs[0]
    scene.disks.heal()
    assert scene.refused == 0


def test_a_log_dir_is_full_while_one_of_its_logs_refuses_appends(scene: Scene, tmp_path: Path) -> None:
    assert not scene.disks.has(str(tmp_path / "0"))
    scene.refuse()
    assert scene.disks.has(str(tmp_path / "0"))
    assert not scene.disks.has(str(tmp_path / "1"))
    scene.room = ROOM_TO_HEAL
    scene.disks.heal()
    assert not scene.disks.has(str(tmp_path / "0"))


def test_a_log_is_forgotten_once(scene: Scene) -> None:
    scene.refuse()
    assert scene.disks.forget(0)
    assert not scene.disks.forget(0)


def test_a_log_that_cannot_be_healed_fails(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.refuse()
    scene.room = ROOM_TO_HEAL
    error = OSError(errno.EIO, os.strerror(errno.EIO))

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(scene.disks, "_reopen", fails)
    scene.disks.heal()
    assert scene.failures == [(0, error)]
    assert scene.refused == 0
