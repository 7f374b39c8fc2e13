"""min.insync.replicas at the append: acks=all is refused before anything is written."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.protocol.errors import ErrorCode
from tests.io.append.drain_case import DrainCase, batch


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    """A partition with several replicas."""
    made = DrainCase(tmp_path)
    made.words[Slot.FLAGS] = SlotFlag.REPLICATED
    return made


def test_with_too_few_replicas_in_sync_acks_all_is_refused_and_nothing_is_written(case: DrainCase) -> None:
    case.row[AppendRow.TOO_FEW] = 1
    token = case.push(batch(), acks=-1)
    case.drain.run()
    assert case.outcomes() == [(token, ErrorCode.NOT_ENOUGH_REPLICAS, -1)]
    assert case.words[Slot.LOG_END] == 0
    assert case.file("log") == b""


@pytest.mark.parametrize("acks", [0, 1])
def test_with_too_few_replicas_in_sync_other_acks_are_appended(case: DrainCase, acks: int) -> None:
    case.row[AppendRow.TOO_FEW] = 1
    case.push(batch(), acks=acks)
    case.drain.run()
    assert [error for _, error, _ in case.outcomes()] == [0]
    assert case.words[Slot.LOG_END] == 1


def test_acks_all_waits_for_the_high_watermark_and_acks_1_does_not(case: DrainCase) -> None:
    case.push(batch(), acks=-1)
    fast = case.push(batch(), acks=1)
    case.drain.run()
    assert case.outcomes() == [(fast, 0, 1)]
    assert (case.words[Slot.LOG_END], case.words[Slot.HIGH_WATERMARK]) == (2, 0)


def test_a_single_replica_knows_no_too_few(case: DrainCase) -> None:
    case.words[Slot.FLAGS] = 0
    case.row[AppendRow.TOO_FEW] = 1
    token = case.push(batch(), acks=-1)
    case.drain.run()
    assert case.outcomes() == [(token, 0, 0)]
