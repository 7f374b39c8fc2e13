"""Answers and notifications of the drain, and the offsets that it publishes."""

from pathlib import Path

import numpy as np
import pytest

from kbroker.io.append.publish_kernel import last_stable, sync_moves_high_watermark
from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Completion, Slot, SlotFlag
from kbroker.ipc.ring import ring_push
from tests.io.append.drain_case import CAPACITY, DrainCase, batch


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    return DrainCase(tmp_path)


@pytest.mark.parametrize("flags", [0, SlotFlag.DURABLE])
def test_an_answer_has_the_log_start_and_a_repeated_batch_the_time_of_the_first(
    case: DrainCase, flags: int
) -> None:
    """Kafka returns this time for retries, whatever message.timestamp.type is."""
    case.words[Slot.FLAGS], case.words[Slot.LOG_START] = flags, 3
    case.row[AppendRow.NEXT_OFFSET] = 5
    for _ in range(2):
        case.push(batch(timestamp=1000, producer=(77, 0, 0)), acks=-1)
        case.drain.run()
    if flags:
        case.words[Slot.DURABLE] = 6
        assert case.drain.release(case.slot) == 2
    names = (Completion.BASE_OFFSET, Completion.LOG_START, Completion.SLOT, Completion.APPEND_TIME_MS)
    found = [[answer[name] for name in names] for answer in case.answers()]
    assert found == [[5, 3, case.slot, -1], [5, 3, case.slot, 1000]]


def test_the_largest_timestamp_of_a_log_outlives_the_segment_that_holds_it(case: DrainCase) -> None:
    case.words[Slot.MAX_TIMESTAMP] = 5000  # of an earlier segment
    for timestamp, largest in ((1000, 5000), (6000, 6000)):
        case.push(batch(timestamp=timestamp))
        case.drain.run()
        assert case.words[Slot.MAX_TIMESTAMP] == largest


def test_a_reader_whose_ring_is_full_waits_as_before(case: DrainCase) -> None:
    """Readers with room are notified, and not again with it."""
    ring = case.shared.completion_ring(1, 0)
    while ring_push(ring, CAPACITY, np.zeros(Completion.STRIDE // 8, np.int64)):
        pass
    case.words[Slot.WAITERS] = 0b11
    assert case.drain.notify(case.slot)
    assert case.words[Slot.WAITERS] == 0b10
    assert [answer[Completion.SLOT] for answer in case.answers(client=0)] == [case.slot]
    case.answers(client=1)
    assert not case.drain.notify(case.slot)
    assert case.words[Slot.WAITERS] == 0
    assert [answer[Completion.SLOT] for answer in case.answers(client=1)] == [case.slot]
    assert case.answers(client=0) == []


@pytest.mark.parametrize(
    ("flags", "synced_end", "moves"),
    [
        (SlotFlag.DURABLE, 6, True),
        (SlotFlag.DURABLE, 5, False),
        (SlotFlag.DURABLE, 4, False),
        (SlotFlag.DURABLE | SlotFlag.REPLICATED, 6, False),
        (SlotFlag.REPLICATED, 6, False),
        (SlotFlag.DURABLE | SlotFlag.LOG_APPEND_TIME, 6, True),
        (0, 6, False),
    ],
)
def test_a_sync_moves_the_high_watermark_of_a_single_durable_replica_forward(
    flags: int, synced_end: int, moves: bool
) -> None:
    assert sync_moves_high_watermark(flags, 5, synced_end) == moves


@pytest.mark.parametrize(
    ("first_unstable", "ended_first", "ended_until", "stable"),
    [
        (-1, 0, 0, 10),
        (0, 0, 0, 0),
        (9, 0, 0, 9),
        (11, 0, 0, 10),
        (-1, 0, 1, 0),
        (-1, 11, 1, 10),
        (3, 2, 12, 2),
        (2, 3, 12, 2),
    ],
)
def test_the_last_stable_offset_is_not_beyond_a_transaction_that_is_open_or_may_open_again(
    first_unstable: int, ended_first: int, ended_until: int, stable: int
) -> None:
    assert last_stable(10, first_unstable, ended_first, ended_until) == stable


def test_a_log_that_need_not_wait_any_more_holds_no_stable_offset_back(case: DrainCase) -> None:
    """Markers that were not below its high watermark are below it after the next append."""
    case.row[AppendRow.ENDED_FIRST], case.row[AppendRow.ENDED_UNTIL] = 0, 9
    case.words[Slot.FLAGS] = SlotFlag.DURABLE
    case.push(batch(records=2))
    case.drain.run()
    assert (case.words[Slot.LAST_STABLE], case.row[AppendRow.ENDED_UNTIL]) == (0, 9)
    case.words[Slot.FLAGS] = 0
    case.push(batch())
    case.drain.run()
    assert (case.words[Slot.LAST_STABLE], case.row[AppendRow.ENDED_UNTIL]) == (3, 0)
