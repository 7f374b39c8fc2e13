"""What fails while a log is copied, and whose log dir goes offline for it."""

import errno
import os
from collections.abc import Callable

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.replication import following as module
from kbroker.ipc.messages import Follow
from tests.io.replication.following_scene import OWN, Scene

Make = Callable[..., Scene]


def test_an_error_of_the_own_log_dir_is_reported_and_no_other(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = scene()
    case.write(b"a")

    def refuse() -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(case.own.partition.active, "open_files", refuse)
    case.follow()
    assert [error.errno for error in case.failed] == [errno.EIO]
    assert case.end == 0


def test_a_read_error_of_the_leaders_disk_takes_its_log_dir_offline(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one of its file alone takes none offline."""
    case = scene()
    case.write(b"a")
    number = errno.EINVAL

    def refuse(*_: object) -> int:
        raise OSError(number, "broken")

    monkeypatch.setattr(os, "preadv", refuse)
    case.follow()
    assert (case.failed, case.errors.failed) == ([], ())
    number = errno.EIO
    case.check(later_ns=module.PAUSE_NS)
    assert case.failed == []
    assert case.errors.failed == (str(case.leader.folder.parent),)
    assert case.errors.of(str(case.leader.folder.parent)) == errno.EIO


def test_a_write_that_fails_is_an_error_of_the_own_log_dir_and_ends_nowhere(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    full = os.open("/dev/full", os.O_RDWR)
    try:
        fds = case.own.partition.active.files
        os.dup2(full, fds.log)
        case.follow()
    finally:
        os.close(full)
    assert [error.errno for error in case.failed] == [errno.ENOSPC]
    assert case.end == 0
    assert case.own.row[AppendRow.STATE] != 1
    assert case.following.waiting


def test_a_copy_waits_while_its_disk_is_full(scene: Make) -> None:
    case = scene()
    case.write(b"a")
    case.follow()
    case.own.partition.active.refuse_appends()
    case.write(b"b")
    case.check(later_ns=2_000_000_000)
    assert (case.end, case.failed) == (1, [])
    assert case.following.waiting
    case.own.partition.repair(case.own.now_ms)
    case.check(later_ns=2_000_000_000)
    case.assert_equal()
    assert case.end == 2


def test_a_lower_recovery_point_that_could_not_be_written_is_not_forgotten(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log led before its next try: after a power cut its new records below the old point were
    not checked."""
    case = scene()
    case.write(b"a", b"b")
    case.follow()
    case.own.partition.role.lead(2)
    case.write(b"x", to=case.own)
    case.leader.partition.role.lead(3)

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as full:
        full.setattr(case.following._logs, "truncated", refuse)
        case.follow(3)
        case.following.follow(Follow(OWN, 3, -1, 0, 0, ""))  # its leader has gone
        with pytest.raises(OSError, match="full"):
            case.following.lower_checkpoints(OWN)
    assert case.lowered == []
    for _ in range(2):
        case.following.lower_checkpoints(OWN)
        assert case.lowered == [OWN]
