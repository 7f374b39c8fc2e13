"""A stop closes every log of an IO worker, or says how many it could not close."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io import openings
from kbroker.io.append.drain import Drain
from kbroker.io.logs import Logs
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import OpenPartition
from kbroker.ipc.shared import Shared, Sizes
from tests.io.append.plain_append import topic_config

SLOT = 3


def logs_of(root: Path, first_start: bool) -> tuple[Logs, Shared]:
    """The logs of IO worker 0, of which none is open."""
    shared = Shared(Sizes(clients=1, workers=1, max_partitions=8, ring_entries=8, arena_bytes=4096))
    context: Any = SimpleNamespace(
        shared=shared,
        first_start=first_start,
        index=0,
        log_dirs=(str(root),),
        clean_dirs=frozenset(),
        closed_logs={},
        config=SimpleNamespace(log_dirs=(str(root),), get_int=lambda name: 1),
    )
    return Logs(context, Drain(shared, 0, producers=16), lambda: None), shared


def begin_no_role(_: object) -> tuple[int, str]:
    return 0, ""


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
