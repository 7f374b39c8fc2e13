"""The moves of an IO worker's logs, while control asks and dies: a move that was answered is there
until it is done or ended, and a copy that may be the log is not removed."""

import errno
import os
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.files.log_dir import LogDir, finish_future
from kbroker.io.log_dirs.moves import THROTTLE, Moves
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MoveCaughtUp,
    MoveFailed,
    MoveProgress,
    MovesInProgress,
    SwitchMove,
)
from kbroker.log import checkpoint
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.io.log_dirs.moving_log import GENERATION, SLOT, Case


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    yield (made := Case(tmp_path))
    made.moves.close()


def logs(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).glob("*.log")}


def test_a_move_continues_if_control_dies_before_its_decision(case: Case) -> None:
    case.begin()
    case.switch()
    assert not case.is_online()
    case.moves.reopened(SLOT, case.here)  # what its successor says
    assert case.is_online()
    assert case.moves.count == 1
    for _ in range(30):
        case.logs.append()
    case.begin()  # and it remembers the move
    case.switch()
    before = logs(case.folder)
    case.moves.finish(FinishMove(SLOT, case.there))
    assert case.folder.startswith(case.there)
    assert logs(case.folder) == before
    assert case.logs.partition.log_end == 50
    assert case.is_online()


def test_control_that_dies_after_its_decision_leaves_a_completed_move(case: Case) -> None:
    case.begin()
    case.switch()
    case.moves.reopened(SLOT, case.there)
    assert case.folder.startswith(case.there)
    assert case.is_online()
    case.moves.finish(FinishMove(SLOT, case.there))  # the second call
    assert case.moves.count == 0


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("how", ["the broker stops", "the log dir is offline"])
def test_the_copy_is_left_to_the_next_start(complete: bool, how: str, case: Case) -> None:
    """Control may have stored that the complete one is the log."""
    case.begin()
    if complete:
        case.switch()
    if how == "the broker stops":
        case.moves.close()
    else:
        for listener in case.logs.failures.offline_listeners:
            listener(SLOT)
    assert case.moves.count == 0
    (left,) = case.futures()
    if complete:
        assert logs(left) == logs(case.folder)
        finish_future(case.there, "t", 0, b"\1" * 16)
        assert logs(Path(case.there, "t-0")) == logs(case.folder)


def test_a_move_that_is_begun_again_has_a_folder_at_every_moment(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    case.begin()
    case.caught_up()
    case.moves.close()
    assert len(case.futures()) == 1
    second = Path(case.there, "t-0.ffffffffffffffffffffffffffffffff-future")
    second.mkdir()
    (second / "rest").touch()
    seen = []
    unlink = Path.unlink

    def watched(path: Path, missing_ok: bool = False) -> None:
        seen.append(len(case.futures()))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", watched)
    again = Moves(case.logs, BrokerConfig, lambda _: None)
    case.moves = again
    case.begin()
    assert seen
    assert set(seen) == {1}
    assert len(case.futures()) == 1
    case.switch()
    assert logs(case.futures()[0]) == logs(case.folder)


def test_files_of_an_older_move_do_not_stop_a_move_back(case: Case) -> None:
    remainder = Path(case.there, "t-0")
    remainder.mkdir()
    (remainder / "old").touch()
    case.begin()
    case.switch()
    case.moves.finish(FinishMove(SLOT, case.there))
    assert case.folder == str(remainder)
    assert not (remainder / "old").exists()


def test_a_copy_says_from_its_beginning_of_which_topic_it_is(case: Case) -> None:
    """It may be deleted while no process is there to remove the copy."""
    case.begin()
    (copy,) = case.futures()
    assert checkpoint.read_topic_id(str(copy)) == case.logs.partition.topic_id == b"\1" * 16


def test_a_move_elsewhere_replaces_one_that_is_not_decided(case: Case) -> None:
    case.begin()
    case.switch()
    case.begin(case.elsewhere)
    assert case.is_online()
    assert case.futures() == []
    assert case.caught_up() == MoveCaughtUp(SLOT, GENERATION, case.elsewhere)
    case.moves.cancel(CancelMove(SLOT))
    assert case.futures(case.elsewhere) == []


def test_a_log_that_is_open_where_it_was_does_not_pass_for_moved(case: Case) -> None:
    """Control would remove the folder."""
    with pytest.raises(KafkaError) as refused:
        case.moves.finish(FinishMove(SLOT, case.there))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    case.begin()
    with pytest.raises(KafkaError):
        case.moves.finish(FinishMove(SLOT, case.there))
    assert case.folder.startswith(case.here)
    case.moves.finish(FinishMove(SLOT, case.here))


@pytest.mark.parametrize("step", ["rename", "write"])
def test_a_log_that_cannot_continue_in_its_new_log_dir_is_given_up(
    case: Case, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its old folder is gone: it was paused until its worker restarted. A sync in progress is of
    the old folder all the same: its error took the new log dir offline when the log was open there
    again."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*_: object) -> None:
        raise full

    case.begin()
    case.switch()
    failing = case.logs.partition.epochs if step == "write" else case.moves._moves[SLOT]
    monkeypatch.setattr(failing, step, fail)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        case.moves.finish(FinishMove(SLOT, case.there))
    assert case.logs.lost == [(SLOT, case.there, full)]
    assert case.logs.left == [f"{case.here}/t-0"]
    assert Path(case.there, "t-0").is_dir() == (step == "write")
    assert Path(case.here, "t-0").exists() == (step == "rename")


def test_a_log_that_cannot_continue_when_control_restarts_is_left_to_its_call(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error ended the worker."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail() -> None:
        raise full

    case.begin()
    case.switch()
    monkeypatch.setattr(case.logs.partition.epochs, "write", fail)
    case.moves.reopened(SLOT, case.there)
    assert case.logs.lost == [(SLOT, case.there, full)]


def test_a_log_is_not_moved_to_where_it_is(case: Case) -> None:
    """Its own folder would be put aside like what an interrupted move has left."""
    with pytest.raises(KafkaError, match="is in that log dir"):
        case.begin(case.here)
    assert Path(case.here, "t-0").is_dir()
    assert case.moves.count == 0


def test_deleted_records_do_not_come_back_with_the_copy(case: Case) -> None:
    """Everything may die between the decision and the first checkpoint of the new log dir."""
    case.logs.partition.delete_records(13)
    case.begin()
    case.switch()
    copy = LogDir(case.there)
    assert copy.log_start_offsets() == {("t", 0): 13}
    assert copy.recovery_points() == {("t", 0): 20}
    with pytest.raises(KafkaError) as refused:  # the copy has its start
        case.logs.partition.delete_records(15)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("failing", ["copy", "log dir"])
def test_a_move_that_fails_is_named(case: Case, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "of the disk")

    if failing == "copy":
        monkeypatch.setattr("kbroker.io.log_dirs.log_move.LogMove._round", fail)
    case.begin()
    case.logs.failed[case.there] = errno.EIO if failing == "log dir" else 0
    deadline = time.monotonic() + 60
    while not case.reported:
        assert time.monotonic() < deadline
        case.moves.report(case.reported.append)
    assert case.reported == [MoveFailed(SLOT, GENERATION, case.there)]
    assert case.futures() == []


def test_fetches_that_wait_at_a_log_are_woken_when_it_has_moved(case: Case) -> None:
    case.begin()
    case.switch()
    assert case.woken == []
    case.moves.finish(FinishMove(SLOT, case.there))
    assert case.woken == [(SLOT, f"{case.there}/t-0")]


@pytest.mark.parametrize("generation", [GENERATION - 1, GENERATION + 1])
def test_a_move_of_another_log_of_the_slot_is_refused(case: Case, generation: int) -> None:
    with pytest.raises(KafkaError) as refused:
        case.moves.begin(BeginMove(SLOT, generation, case.there))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (case.moves.count, case.futures()) == (0, [])
    case.begin()
    case.caught_up()
    with pytest.raises(KafkaError):
        case.moves.switch(SwitchMove(SLOT, generation))
    assert case.is_online()


def test_a_move_is_begun_and_completed_once(case: Case) -> None:
    case.begin()
    (move,) = case.moves._moves.values()
    case.begin()
    assert case.moves._moves == {SLOT: move}
    case.switch()
    assert case.moves.switch(SwitchMove(SLOT, GENERATION))
    case.reported.clear()
    case.moves.report(case.reported.append)
    assert case.reported == []
    size = sum(map(len, logs(case.folder).values()))
    assert case.moves.progress(MovesInProgress()) == (MoveProgress(SLOT, size, 20),)
    with pytest.raises(KafkaError):
        case.moves.finish(FinishMove(SLOT, case.elsewhere))
    assert case.folder.startswith(case.here)


@pytest.mark.parametrize(("text", "failed"), [("", 0), ("broken", 0), ("offline", errno.EIO)])
def test_a_log_whose_copy_is_not_completed_stays_in_use(
    case: Case, monkeypatch: pytest.MonkeyPatch, text: str, failed: int
) -> None:
    def complete() -> bool:
        if text:
            raise OSError(errno.EIO, text)
        return False

    case.begin()
    case.caught_up()
    case.logs.failed[case.there] = failed  # in a log dir that has failed it would not be served
    monkeypatch.setattr(case.moves._moves[SLOT], "complete", complete)
    if text:
        with pytest.raises(OSError, match=os.strerror(failed) if failed else text):
            case.moves.switch(SwitchMove(SLOT, GENERATION))
    else:
        assert not case.moves.switch(SwitchMove(SLOT, GENERATION))
    assert (case.is_online(), case.moves.count) == (True, int(not text))
    assert LogDir(case.there).recovery_points() == {}


@pytest.mark.parametrize(
    ("cluster", "own", "rate"), [(None, None, inf), ("5", None, 5.0), ("5", "7", 7.0), (None, "0", 1.0)]
)
def test_the_limit_of_the_broker_goes_before_that_of_all(
    case: Case, cluster: str | None, own: str | None, rate: float
) -> None:
    found = [{} if value is None else {THROTTLE: value} for value in (cluster, own)]
    config: Any = SimpleNamespace(cluster=found[0], own=found[1])
    assert Moves(case.logs, lambda: config, lambda _: None)._bytes_per_second() == rate
