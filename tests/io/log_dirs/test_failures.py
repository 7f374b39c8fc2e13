"""The reaction of an IO worker to errors of its log dirs."""

import errno
import os
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, AppendState
from kbroker.io.log_dirs.failures import WRITE_ERRORS
from kbroker.ipc.layout import Slot, SlotState
from kbroker.log import boot_mark
from kbroker.protocol.errors import ErrorCode
from tests.io.three_logs import A_IS_OFFLINE, ALL_ONLINE, EMPTY, ThreeLogs


@pytest.fixture
def scene(tmp_path: Path) -> ThreeLogs:
    return ThreeLogs(tmp_path)


def test_an_error_of_a_disk_takes_its_log_dir_offline_and_no_other(scene: ThreeLogs) -> None:
    scene.logs.failures.log_failed(1, OSError(errno.EIO, "broken"))
    assert scene.states == A_IS_OFFLINE
    assert scene.gone == [0, 1]
    assert (scene.logs.get(0), scene.logs.get(1)) == (None, None)
    assert scene.refusal(0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.logs.require(2) is scene.opened[2].partition
    assert [scene.errors.of(path) for path in scene.paths] == [errno.EIO, 0]
    assert scene.logs.log_dir(scene.paths[0]).failed is not None
    assert scene.logs.log_dir(scene.paths[1]).failed is None


def test_the_logs_of_a_log_dir_that_failed_are_checked_by_the_next_start(scene: ThreeLogs) -> None:
    """After a failed sync the kernel has dropped what it could not write."""
    for path in scene.paths:
        boot_mark.write(path)
    scene.logs.failures.sync_failed(scene.opened[0].partition.folder, errno.EIO)
    assert [boot_mark.take(path) for path in scene.paths] == [False, True]


def test_the_logs_are_checked_if_another_process_met_the_error(scene: ThreeLogs) -> None:
    boot_mark.write(scene.paths[0])
    scene.errors.fail(scene.paths[0], errno.EIO)
    scene.logs.failures.check_dirs()
    assert not boot_mark.take(scene.paths[0])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_a_full_disk_refuses_appends_to_the_log_that_met_it(scene: ThreeLogs, number: int) -> None:
    scene.logs.failures.log_failed(1, OSError(number, "no room"))
    assert scene.states == ALL_ONLINE
    states = [int(scene.drain.rows[slot, AppendRow.STATE]) for slot in range(3)]
    assert states == [AppendState.OPEN, AppendState.DISK_FULL, AppendState.OPEN]


@pytest.mark.parametrize(
    ("number", "other"), [(errno.ENOSPC, SlotState.ONLINE), (errno.EIO, SlotState.OFFLINE)]
)
def test_a_log_that_cannot_continue_where_it_was_moved_is_offline(
    scene: ThreeLogs, number: int, other: SlotState
) -> None:
    scene.logs.failures.log_lost(0, scene.paths[1], OSError(number, os.strerror(number)))
    assert scene.states == [SlotState.OFFLINE, SlotState.ONLINE, other]
    assert scene.logs.get(0) is None


def test_a_write_that_fails_is_of_its_log_dir(scene: ThreeLogs) -> None:
    scene.logs.failures.write_failed(1, errno.EIO)
    assert scene.states == A_IS_OFFLINE


def test_two_writes_of_a_drain_that_fail_take_their_log_dir_offline_once(scene: ThreeLogs) -> None:
    scene.logs.failures.write_failed(1, errno.EIO)
    scene.logs.failures.write_failed(0, errno.EIO)
    assert scene.states == A_IS_OFFLINE


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_sync_that_failed_a_log_dir_is_not_trusted_whatever_the_error(
    scene: ThreeLogs, number: int
) -> None:
    scene.logs.failures.sync_failed(scene.opened[0].partition.folder, number)
    assert scene.states == A_IS_OFFLINE


@pytest.mark.parametrize(
    ("number", "states"), [(errno.EIO, A_IS_OFFLINE), (errno.ENOENT, ALL_ONLINE), (errno.EMFILE, ALL_ONLINE)]
)
def test_a_read_that_fails_for_the_disk_takes_the_log_dir_offline(
    scene: ThreeLogs, number: int, states: list[int]
) -> None:
    scene.logs.failures.read_failed(0, OSError(number, "read"))
    scene.logs.failures.read_failed(EMPTY, OSError(errno.EIO, "read"))
    assert scene.states == states


def test_a_log_dir_that_failed_elsewhere_or_was_replaced_goes_offline(scene: ThreeLogs) -> None:
    scene.logs.failures.check_dirs()
    assert scene.states == ALL_ONLINE
    scene.errors.fail(scene.paths[0], errno.EIO)
    scene.logs.failures.check_dirs()
    assert scene.states == A_IS_OFFLINE
    Path(scene.paths[1]).rename(f"{scene.paths[1]}-gone")
    Path(scene.paths[1]).mkdir()
    scene.logs.failures.check_dirs()
    assert scene.states == [SlotState.OFFLINE] * 3


@pytest.mark.parametrize(("number", "states"), [(errno.ENOSPC, ALL_ONLINE), (errno.EIO, A_IS_OFFLINE)])
def test_a_checkpoint_that_a_full_disk_refuses_is_missed_by_no_log(
    scene: ThreeLogs, number: int, states: list[int]
) -> None:
    scene.logs.failures.checkpoint_failed(scene.paths[0], OSError(number, "checkpoint"))
    assert scene.states == states


def test_a_full_disk_has_its_reserved_blocks_freed_once(scene: ThreeLogs) -> None:
    full: list[str] = []
    scene.logs.failures.no_room_listeners.append(full.append)
    for _ in range(2):
        scene.logs.failures.log_failed(1, OSError(errno.ENOSPC, "no room"))
    assert full == [scene.paths[0]]


def test_fetches_that_wait_at_a_log_are_woken_when_its_log_dir_fails(
    scene: ThreeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified: list[tuple[int, int]] = []
    monkeypatch.setattr(
        scene.drain, "notify", lambda slot: notified.append((slot, int(scene.shared.slots[slot, Slot.STATE])))
    )
    scene.logs.failures.dir_failed(scene.paths[0], OSError(errno.EIO, "broken"))
    assert notified == [(0, SlotState.OFFLINE), (1, SlotState.OFFLINE)]


def test_an_error_without_a_number_counts_as_one_of_the_disk(scene: ThreeLogs) -> None:
    scene.logs.failures.dir_failed(scene.paths[0], OSError("broken"))
    assert scene.states == A_IS_OFFLINE
    assert scene.errors.of(scene.paths[0]) == errno.EIO


def test_each_write_that_fails_is_counted(scene: ThreeLogs) -> None:
    before = int(scene.drain.metrics.words[WRITE_ERRORS])
    scene.logs.failures.write_failed(1, errno.ENOSPC)
    scene.logs.failures.write_failed(EMPTY, errno.EIO)
    assert scene.drain.metrics.words[WRITE_ERRORS] == before + 2
    assert scene.states == ALL_ONLINE


def test_a_log_that_is_offline_does_not_count_as_one_on_a_full_disk(scene: ThreeLogs) -> None:
    failures, full = scene.logs.failures, OSError(errno.ENOSPC, "no room")
    for slot in range(3):
        failures.log_failed(slot, full)
    failures.log_lost(2, scene.paths[0], full)
    assert failures.lost == {2: scene.opened[2].partition.published.generation}
    assert [failures.full_disks.has(path) for path in scene.paths] == [True, False]
    failures.dir_failed(scene.paths[0], OSError(errno.EIO, "broken"))
    assert not any(failures.full_disks.forget(slot) for slot in range(3))
    assert scene.gone == [2, 0, 1]
