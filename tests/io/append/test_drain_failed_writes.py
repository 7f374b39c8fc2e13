"""A write that fails is the failure of every batch that it was to hold, and of every retry of
one."""

import os
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, Environment, SyncRow, SyncState
from kbroker.io.group_commit import RECORD
from kbroker.ipc.layout import Completion, Slot, SlotFlag
from tests.io.append.drain_case import DrainCase, batch

STORAGE_ERROR = 56
OUT_OF_ORDER = 45


@pytest.mark.parametrize(("flag", "acks"), [(0, 1), (SlotFlag.DURABLE, -1), (SlotFlag.REPLICATED, -1)])
def test_a_retry_of_a_batch_that_is_not_written_is_not_acknowledged(
    tmp_path: Path, flag: int, acks: int
) -> None:
    """The client has repeated it because the disk was slow; both are in the ring when the write
    fails. Afterwards no later append may answer it."""
    case = DrainCase(tmp_path)
    case.words[Slot.FLAGS] = flag
    kept = case.push(batch(producer=(7, 0, 0)))
    case.drain.run()
    assert case.outcomes() == [(kept, 0, 0)]
    case.words[Slot.DURABLE] = case.words[Slot.HIGH_WATERMARK] = 1
    case.row[AppendRow.LOG_FD] = os.open("/dev/full", os.O_WRONLY)
    written = case.push(batch(producer=(7, 0, 0)), acks)
    refused = case.push(batch(producer=(7, 0, 9)), acks)
    failed = [case.push(batch(producer=(7, 0, 1)), acks) for _ in range(2)]
    case.drain.run()
    assert sorted(case.outcomes()) == [
        (written, 0, 0),
        (refused, OUT_OF_ORDER, -1),
        *((token, STORAGE_ERROR, -1) for token in failed),
    ]
    assert case.drain.delayed == 0
    assert case.words[Slot.LOG_END] == 1


def test_a_write_that_fails_begins_no_sync_and_wakes_no_reader(tmp_path: Path) -> None:
    """A log that was written in the same call has both."""
    case = DrainCase(tmp_path)
    case.words[Slot.FLAGS] = SlotFlag.DURABLE
    rows, slots, failing, good = case.drain.rows, case.shared.slots, case.slot, case.slot + 1
    rows[good], slots[good] = rows[failing], slots[failing]
    rows[failing, AppendRow.LOG_FD] = os.open("/dev/full", os.O_WRONLY)
    slots[[failing, good], Slot.WAITERS] = 1 << 1
    rows[[failing, good], AppendRow.PLAIN_SYNC] = 1
    jobs, case.drain.env[Environment.SYNC_JOBS] = os.pipe2(os.O_NONBLOCK)
    for case.slot in (failing, good):
        case.push(batch(), acks=-1)
    case.drain.run()
    assert [answer[Completion.SLOT] for answer in case.answers(client=1)] == [good]
    assert [slots[slot, Slot.WAITERS] for slot in (failing, good)] == [1 << 1, 0]
    assert [-1 - token for token, _, _ in RECORD.iter_unpack(os.read(jobs, 4096))] == [good]
    assert case.drain.syncs[failing, SyncRow.STATE] == SyncState.IDLE
