"""Appends and their repetitions with flush.messages, which has some of them wait for the disk."""

from pathlib import Path

import pytest

from kbroker.io.append.rows import AppendRow, Drained, FollowUp
from kbroker.ipc.layout import Slot, SlotFlag
from tests.io.append.drain_case import DrainCase, batch


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    return DrainCase(tmp_path)


def test_flush_messages_holds_the_batch_that_reaches_it(case: DrainCase) -> None:
    case.row[AppendRow.FLUSH_RECORDS] = 3
    first, second = case.push(batch(records=2)), case.push(batch(records=1))
    case.drain.run()
    assert case.outcomes() == [(first, 0, 0)]
    assert case.drain.out[Drained.FOLLOW_UP] == FollowUp.FLUSH
    case.words[Slot.DURABLE] = 3
    assert case.drain.release(case.slot) == 1
    assert case.outcomes() == [(second, 0, 2)]


def test_other_batches_than_those_of_flush_messages_wait_for_replicas_only(case: DrainCase) -> None:
    """They waited for a sync that no append may follow to begin, and expired."""
    case.words[Slot.FLAGS] = SlotFlag.REPLICATED
    case.row[AppendRow.FLUSH_RECORDS] = 3
    tokens = [case.push(batch(), acks=-1) for _ in range(2)]
    case.drain.run()
    case.words[Slot.HIGH_WATERMARK] = 2
    assert case.drain.release(case.slot) == 2
    assert case.outcomes() == [(tokens[0], 0, 0), (tokens[1], 0, 1)]
    third = case.push(batch(), acks=-1)
    case.drain.run()
    case.words[Slot.HIGH_WATERMARK] = 3
    assert case.drain.release(case.slot) == 0
    case.words[Slot.DURABLE] = 3
    assert case.drain.release(case.slot) == 1
    assert case.outcomes() == [(third, 0, 2)]


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("together", [False, True])
def test_a_repeated_batch_of_flush_messages_waits_for_the_disk_like_the_first(
    case: DrainCase, acks: int, together: bool
) -> None:
    case.row[AppendRow.FLUSH_RECORDS] = 1
    tokens = [case.push(batch(producer=(7, 0, 0)), acks=acks)]
    if not together:
        case.drain.run()
    tokens.append(case.push(batch(producer=(7, 0, 0)), acks=acks))
    case.drain.run()
    assert case.outcomes() == []
    case.words[Slot.DURABLE] = 1
    assert case.drain.release(case.slot) == 2
    tokens.append(case.push(batch(producer=(7, 0, 0)), acks=acks))
    case.drain.run()
    assert case.outcomes() == [(token, 0, 0) for token in tokens]


def test_flush_messages_holds_no_batch_that_asks_for_no_answer(case: DrainCase) -> None:
    case.row[AppendRow.FLUSH_RECORDS] = 1
    case.push(batch(), acks=0)
    case.drain.run()
    assert case.words[Slot.LOG_END] == 1
    assert case.drain.out[Drained.FOLLOW_UP] == FollowUp.FLUSH
    assert case.drain.delayed == 0


def test_a_repeated_batch_that_asks_for_no_answer_is_not_held_either(case: DrainCase) -> None:
    case.row[AppendRow.FLUSH_RECORDS] = 1
    for _ in range(2):
        case.push(batch(producer=(7, 0, 0)), acks=0)
        case.drain.run()
    assert case.words[Slot.LOG_END] == 1
    assert case.drain.delayed == 0
