"""Errors of the disks between which a log is moved: as in Apache Kafka the log dir that fails goes
offline, whichever of the two it is."""

import errno
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.io.log_dirs.log_move import TargetFailed
from kbroker.ipc.move_messages import MoveFailed, SwitchMove
from tests.io.log_dirs.moving_log import GENERATION, SLOT, Case

Fail = Callable[..., object]


@pytest.fixture
def made(tmp_path: Path) -> Case:
    return Case(tmp_path)


def refusing(number: int) -> Fail:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    return refuse


def ended(case: Case) -> None:
    """The move has ended with an error."""
    deadline = time.monotonic() + 60
    while MoveFailed(SLOT, GENERATION, case.there) not in case.reported:
        assert time.monotonic() < deadline
        case.moves.report(case.reported.append)
    assert case.moves.count == 0


@pytest.mark.parametrize("call", ["sendfile", "fdatasync", "fsync", "utime"])
def test_a_log_dir_to_which_nothing_can_be_written_goes_offline(
    made: Case, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Only the move ended: the next log was put on the disk that had failed."""
    with monkeypatch.context() as failing:
        failing.setattr(os, call, refusing(errno.EIO))
        if call == "fsync":
            with pytest.raises(TargetFailed):
                made.begin()
        else:
            made.begin()
            ended(made)
    assert made.logs.failed_dirs == [(made.there, errno.EIO)]
    assert made.logs.unreadable == []
    assert made.is_online()


def test_a_full_log_dir_only_ends_the_move(made: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(os, "sendfile", refusing(errno.ENOSPC))
        made.begin()
        ended(made)
    assert made.logs.failed_dirs == made.logs.unreadable == []


def test_a_log_that_cannot_be_read_is_an_error_of_its_own_log_dir(
    made: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(os, "sendfile", refusing(errno.EIO))
        failing.setattr(os, "pread", refusing(errno.EIO))
        made.begin()
        ended(made)
    assert made.logs.failed_dirs == []
    assert made.logs.unreadable == [(SLOT, errno.EIO)]


def test_a_copy_whose_folder_is_gone_ends_the_move(made: Case) -> None:
    """It never ended, and never caught up. The disk need not have failed: control renames the copy
    of a deleted log."""
    made.begin()
    made.caught_up()
    (copy,) = made.futures()
    shutil.rmtree(copy)
    made.logs.append()
    ended(made)
    assert made.logs.failed_dirs == made.logs.unreadable == []


def test_checkpoints_of_the_copy_that_cannot_be_written_are_an_error_of_its_log_dir(
    made: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.begin()
    made.caught_up()
    monkeypatch.setattr(made.logs, "checkpoint_copy", refusing(errno.EROFS))
    with pytest.raises(TargetFailed):
        made.moves.switch(SwitchMove(SLOT, GENERATION))
    assert made.logs.failed_dirs == [(made.there, errno.EROFS)]
    assert made.is_online()
