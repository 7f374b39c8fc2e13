"""A write that fails is the failure of every batch that it was to hold, and of every retry of
one."""

import os
from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Slot, SlotFlag
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
