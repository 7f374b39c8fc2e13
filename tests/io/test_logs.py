"""A stop closes every log of an IO worker, or says how many it could not close."""

import errno
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io import openings
from kbroker.io.append.drain import Drain
from kbroker.io.files import leader_epoch_cache
from kbroker.io.files.log_dir import LogDir
from kbroker.io.logs import RECOVERED_LOGS, Logs
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import OpenPartition, Reply
from kbroker.ipc.shared import Shared, Sizes
from kbroker.log import files
from kbroker.log.checkpoint import CorruptCheckpoint
from kbroker.protocol.errors import ErrorCode
from tests.io.append.plain_append import topic_config
from tests.log.batch_bytes import batch

SLOT = 3


def logs_of(root: Path, first_start: bool, shared: Shared | None = None) -> tuple[Logs, Shared]:
    """The logs of IO worker 0, of which none is open."""
    shared = shared or Shared(Sizes(clients=1, workers=1, max_partitions=8, ring_entries=8, arena_bytes=4096))
    context: Any = SimpleNamespace(
        shared=shared,
        first_start=first_start,
        index=0,
        log_dirs=(str(root),),
        clean_dirs=frozenset(),
        same_boot_dirs=frozenset(),
        closed_logs={},
        config=SimpleNamespace(log_dirs=(str(root),), get_int=lambda name: 1),
    )
    return Logs(context, Drain(shared, 0, producers=16), lambda: None), shared


def begin_no_role(_: object) -> tuple[int, str]:
    return 0, ""


def open_at_once(logs: Logs, call: OpenPartition) -> Reply:
    """The reply once the log is open, or could not be opened."""
    logs.open(call, 1)
    while not (replies := logs.take_opened(begin_no_role)):
        time.sleep(0.001)
    return replies[0]


@pytest.mark.parametrize("state", [SlotState.ONLINE, SlotState.RECOVERING])
@pytest.mark.parametrize(("first_start", "owner", "left"), [(False, 0, 1), (True, 0, 0), (False, 1, 0)])
def test_log_that_a_killed_predecessor_had_open_counts_as_not_closed(
    tmp_path: Path, state: int, first_start: bool, owner: int, left: int
) -> None:
    logs, shared = logs_of(tmp_path, first_start)
    shared.slots[SLOT, Slot.STATE] = state
    shared.slots[SLOT, Slot.OWNER] = owner
    shared.slots[:SLOT, Slot.OWNER] = 1
    assert logs.close_all(begin_no_role) == left


def test_log_that_a_killed_predecessor_could_not_open_counts_as_not_closed_until_it_is_opened(
    tmp_path: Path,
) -> None:
    """It found no room, and may be torn. Of a log dir that has failed, control has the worker open
    the logs again, too."""
    logs, shared = logs_of(tmp_path, first_start=False)
    shared.slots[SLOT, Slot.STATE] = SlotState.OFFLINE
    shared.slots[SLOT, Slot.GENERATION] = 7
    assert logs._openings.not_closed(0, ()) == 1
    logs.failures.dir_failed(str(tmp_path), OSError(errno.EIO, "failed"))
    call = OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config())
    assert open_at_once(logs, call).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert shared.slots[SLOT, Slot.STATE] == SlotState.OFFLINE
    assert logs.close_all(begin_no_role) == 0


def test_log_that_is_deleted_after_its_process_was_killed_is_not_missed_at_the_stop(tmp_path: Path) -> None:
    logs, shared = logs_of(tmp_path, first_start=False)
    shared.slots[:, Slot.OWNER] = 1
    shared.slots[SLOT, Slot.STATE] = SlotState.ONLINE
    shared.slots[SLOT, Slot.OWNER] = 0
    assert logs.delete([SLOT]) == {}
    assert shared.slots[SLOT, Slot.STATE] == SlotState.DELETED
    assert logs.close_all(begin_no_role) == 0


@pytest.mark.parametrize(("number", "left"), [(errno.ENOSPC, 1), (errno.EMFILE, 1), (0, 0)])
def test_log_that_found_no_room_when_it_was_opened_counts_as_not_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, left: int
) -> None:
    logs, shared = logs_of(tmp_path, first_start=True)
    if number:

        def refuse(*_: object) -> bool:
            raise OSError(number, "no room")

        monkeypatch.setattr(openings, "create_folder", refuse)
    logs.open(OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config()), 1)
    assert logs.close_all(begin_no_role) == left
    assert (shared.slots[SLOT, Slot.STATE] == SlotState.OFFLINE) == bool(left)


def test_a_log_whose_recovery_point_finds_no_room_is_opened_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was open and offline."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    logs, shared = logs_of(tmp_path, first_start=True)
    call = OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config())
    with monkeypatch.context() as full:
        full.setattr(openings, "lower_checkpoints", refuse)
        assert open_at_once(logs, call).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get(SLOT) is None
    assert open_at_once(logs, call).error == 0
    assert shared.slots[SLOT, Slot.STATE] == SlotState.ONLINE
    logs._openings.close()


def test_a_log_whose_leader_epoch_finds_no_room_is_opened_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its IO worker died, at each start again: after a kill every log has a new leader epoch."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    logs, shared = logs_of(tmp_path, first_start=True)
    calls = [
        OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), epoch, topic_config()) for epoch in (0, 1)
    ]
    assert open_at_once(logs, calls[0]).error == 0
    assert logs.close_all(begin_no_role) == 0
    logs, shared = logs_of(tmp_path, first_start=True)
    with monkeypatch.context() as full:
        full.setattr(leader_epoch_cache, "write_leader_epochs", refuse)
        assert open_at_once(logs, calls[1]).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get(SLOT) is None
    assert shared.slots[SLOT, Slot.STATE] == SlotState.OFFLINE
    assert logs._openings.not_closed(0, ()) == 1
    assert open_at_once(logs, calls[1]).error == 0
    assert shared.slots[SLOT, Slot.STATE] == SlotState.ONLINE
    assert logs.close_all(begin_no_role) == 0


@pytest.mark.parametrize(("number", "dir_fails"), [(errno.EIO, True), (errno.EMFILE, False)])
def test_a_log_dir_whose_checkpoints_cannot_be_read_does_not_end_its_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, dir_fails: bool
) -> None:
    """Its successors died of the same: logs of other log dirs were not served, either."""

    def refuse(_: LogDir) -> None:
        raise OSError(number, "no checkpoints")

    logs, shared = logs_of(tmp_path, first_start=True)
    monkeypatch.setattr(LogDir, "recovery_points", refuse)
    call = OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config())
    assert open_at_once(logs, call).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert bool(logs.failures.of(str(tmp_path))) == dir_fails
    assert shared.slots[SLOT, Slot.STATE] == SlotState.OFFLINE
    assert logs._openings.progress_line() is None
    logs._openings.close()


def test_a_damaged_log_is_no_matter_of_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control would try to open it again, and read all of it each time."""

    def damaged(*_: object) -> bool:
        raise CorruptCheckpoint("damaged")

    logs, shared = logs_of(tmp_path, first_start=True)
    monkeypatch.setattr(openings, "create_folder", damaged)
    call = OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config())
    assert open_at_once(logs, call).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert shared.slots[SLOT, Slot.STATE] == SlotState.OFFLINE
    logs._openings.close()


@pytest.mark.parametrize("died_in_a_write", [False, True])
def test_a_process_that_died_while_it_opened_a_log_leaves_no_end_to_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, died_in_a_write: bool
) -> None:
    """The slot's words are those of the log that had it before, or half written by the process that
    died first."""
    logs, shared = logs_of(tmp_path, first_start=False)
    words = shared.slots[SLOT]
    words[Slot.GENERATION], words[Slot.SEGMENT_COUNT] = 7, 1
    words[Slot.LOG_START] = words[Slot.ACTIVE_BASE] = words[Slot.LOG_END] = words[Slot.HIGH_WATERMARK] = 5
    words[Slot.STATE] = SlotState.ONLINE if died_in_a_write else SlotState.DELETED
    words[Slot.SEQUENCE] = died_in_a_write
    opening = OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config(), new=True)
    with monkeypatch.context() as dying:
        dying.setattr(openings.Openings, "load", lambda *_: None)
        logs.open(opening, 1)
    assert words[Slot.STATE] == SlotState.RECOVERING
    successor, _ = logs_of(tmp_path, first_start=False, shared=shared)
    successor.open(opening, 2)
    assert successor.close_all(begin_no_role) == 0
    assert (words[Slot.LOG_START], words[Slot.LOG_END]) == (0, 0)


def test_a_new_log_has_nothing_of_a_deleted_log_of_its_name(tmp_path: Path) -> None:
    """The process that deleted it died before it had dropped it from the checkpoints. A start after
    a kill must not remove the records of the new log below the old log start."""
    log_dir, old = LogDir(str(tmp_path)), {("t", 0): 1000, ("t", 1): 7}
    log_dir.update_recovery_points(old)
    log_dir.update_log_start_offsets(old)
    log_dir.update_cleaner_offsets(old)
    for new in (True, False):
        logs, shared = logs_of(tmp_path, first_start=True)
        logs.open(OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config(), new=new), 1)
        logs._openings.close()
        logs.take_opened(begin_no_role)
        assert shared.slots[SLOT, Slot.STATE] == SlotState.ONLINE
        if new:  # a record is appended, then the broker is killed
            Path(files.path(logs.require(SLOT).folder, 0, files.LOG)).write_bytes(batch(0, [b"v"]))
    assert (shared.slots[SLOT, Slot.LOG_START], shared.slots[SLOT, Slot.LOG_END]) == (0, 1)
    for left in (log_dir.recovery_points(), log_dir.log_start_offsets(), log_dir.cleaner_offsets()):
        assert left == {("t", 1): 7}


def test_opened_logs_are_counted_and_those_that_cannot_be_opened_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = openings.create_folder

    def refuse_one(folder: str, *others: Any) -> bool:
        if folder.endswith("-5"):
            raise OSError(errno.EIO, "broken")
        return create(folder, *others)

    monkeypatch.setattr(openings, "create_folder", refuse_one)
    logs, _ = logs_of(tmp_path, first_start=True)
    for number in (3, 4, 5):
        logs.open(OpenPartition(number, 7, "t", number, b"t" * 16, str(tmp_path), 0, topic_config()), number)
    replies: list[object] = []
    while len(replies) < 3:
        replies += logs.take_opened(begin_no_role)
        time.sleep(0.001)
    logs._openings.close()
    assert logs._drain.metrics.words[RECOVERED_LOGS] == 2
    assert logs.slots_used == 5


def test_fetches_that_wait_at_a_slot_are_woken_when_its_log_is_online(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, shared = logs_of(tmp_path, first_start=True)
    notified: list[tuple[int, int]] = []
    monkeypatch.setattr(
        logs._drain, "notify", lambda slot: notified.append((slot, int(shared.slots[slot, Slot.STATE])))
    )
    logs.open(OpenPartition(SLOT, 7, "t", 0, b"t" * 16, str(tmp_path), 0, topic_config()), 1)
    assert logs.close_all(begin_no_role) == 0
    assert notified == [(SLOT, SlotState.ONLINE)]
