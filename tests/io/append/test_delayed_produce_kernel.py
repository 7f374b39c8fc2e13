"""Delayed produces as rows: each is answered once, with what a plain list of them would have
said."""

import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.io.append.drain import HeldAppend
from kbroker.io.append.rows import AppendRow, Batch, Drained, Environment, Stop
from kbroker.ipc.layout import Slot, SlotFlag
from tests.io.append.drain_case import CAPACITY, DrainCase, batch

TIMED_OUT = 7
NOT_LEADER = 6
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
LIMITS = {True: (1, AppendRow.NEVER), False: (AppendRow.NEVER, 0)}  # by whether flush.messages=1


def held(token: int, slot: int, offset: int, acks: int = -1, timeout_ms: int = 30_000) -> HeldAppend:
    return HeldAppend(0, token, slot, offset, offset, -1, acks, timeout_ms)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    made = DrainCase(tmp_path)
    made.words[Slot.FLAGS] = SlotFlag.DURABLE
    return made


step = st.one_of(
    st.tuples(st.just("hold"), st.integers(1, 4), st.sampled_from([-1, 1])),
    st.tuples(st.just("again"), st.integers(1, 4), st.sampled_from([-1, 1])),
    st.tuples(st.just("durable"), st.integers(1, 4), st.integers(0, 6)),
    st.tuples(st.just("mark"), st.integers(1, 4), st.integers(0, 6)),
    st.tuples(st.just("expire"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("fail"), st.integers(1, 4), st.just(0)),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(step, max_size=60), st.lists(st.sampled_from([0, 16, 20]), min_size=5, max_size=5), st.booleans()
)
def test_answers_are_those_of_a_plain_list(
    steps: list[tuple[str, int, int]], flags: list[int], flush_messages: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        case = DrainCase(Path(folder))
        drain, slots = case.drain, case.shared.slots
        slots[:5, Slot.FLAGS] = flags
        drain.rows[:, [AppendRow.FLUSH_RECORDS, AppendRow.SYNC_END]] = LIMITS[flush_messages]
        waiting: list[tuple[HeldAppend, int]] = []  # with the expiry
        expected: list[tuple[int, int, int]] = []
        ends = [0] * 5
        start = now_ms()

        def reached(append: HeldAppend) -> bool:
            words = slots[append.slot]
            on_disk, mark = int(words[Slot.DURABLE]), int(words[Slot.HIGH_WATERMARK])
            if words[Slot.FLAGS] & SlotFlag.REPLICATED and append.acks == -1:
                return append.last_offset < (min(mark, on_disk) if flush_messages else mark)
            return append.last_offset < on_disk

        def answer(which: list[tuple[HeldAppend, int]], error: int) -> None:
            for one in which:
                waiting.remove(one)
                expected.append((one[0].token, error, -1 if error else one[0].base_offset))

        for token, (what, where, amount) in enumerate(steps, 1):
            if what == "hold":
                append = held(token, where, ends[where], amount, timeout_ms=10_000 * (token % 3 + 1))
                ends[where] += 1
                drain.hold(append)
                waiting.append((append, token % 3 + 1))
            elif what == "again":  # an earlier batch, sent once more
                append = held(token, where, token % max(1, ends[where]), amount, timeout_ms=10_000)
                if ends[where] and not reached(append):
                    drain.hold(append)
                    waiting.append((append, 1))
            elif what in ("durable", "mark"):
                word = Slot.DURABLE if what == "durable" else Slot.HIGH_WATERMARK
                slots[where, word] = min(ends[where], slots[where, word] + amount)
                drain.release(where)
                answer([one for one in waiting if one[0].slot == where and reached(one[0])], 0)
            elif what == "expire":
                drain.expire(start + 10_000 * where + 9_000)
                answer([one for one in waiting if one[1] <= where], TIMED_OUT)
            else:
                drain.fail(where, NOT_LEADER)
                answer([one for one in waiting if one[0].slot == where], NOT_LEADER)
            assert sorted(case.outcomes()) == sorted(expected)
            assert drain.delayed == len(waiting)
            expected.clear()


def test_a_client_without_room_gets_its_answers_later_and_in_order(case: DrainCase) -> None:
    for offset in range(CAPACITY + 10):
        case.drain.hold(held(offset + 1, case.slot, offset))
    case.words[Slot.DURABLE] = CAPACITY + 10
    case.drain.release(case.slot)
    assert case.drain.unanswered
    case.drain.answer_late()
    assert case.drain.delayed == 10
    assert [token for token, _, _ in case.outcomes()] == list(range(1, CAPACITY + 1))
    case.drain.answer_late()
    assert [token for token, _, _ in case.outcomes()] == list(range(CAPACITY + 1, CAPACITY + 11))
    assert case.drain.delayed == 0


@pytest.mark.parametrize("again", [0, 1])
def test_a_repeated_batch_is_answered_with_the_first_attempt(case: DrainCase, again: int) -> None:
    """Also if later batches of the log wait already, and are never kept."""
    for offset in range(3):
        case.drain.hold(held(offset + 1, case.slot, offset))
    case.drain.hold(held(9, case.slot, again))
    case.words[Slot.DURABLE] = again + 1
    assert case.drain.release(case.slot) == again + 2
    assert [token for token, _, _ in case.outcomes()] == [*range(1, again + 2), 9]
    case.drain.hold(held(10, case.slot, 3))
    case.words[Slot.DURABLE] = 4
    case.drain.release(case.slot)
    assert [token for token, _, _ in case.outcomes()] == [*range(again + 2, 4), 10]
    assert case.drain.delayed == 0


def test_thousands_wait_at_a_time_and_each_is_answered(case: DrainCase) -> None:
    count = 5 * Batch.ROWS
    for offset in range(count):
        case.drain.hold(held(offset + 1, case.slot, offset))
    answered = []
    for end in range(0, count + 1, CAPACITY):
        case.words[Slot.DURABLE] = end
        case.drain.release(case.slot)
        answered += [token for token, _, _ in case.outcomes()]
    assert answered == list(range(1, count + 1))


def test_the_next_expiry_is_the_shortest_timeout(case: DrainCase) -> None:
    assert case.drain.env[Environment.DELAYED_DUE_MS] == AppendRow.NEVER
    before = now_ms()
    case.drain.hold(held(1, case.slot, 0, timeout_ms=60_000))
    case.drain.hold(held(2, case.slot, 1, timeout_ms=20_000))
    assert before + 20_000 <= case.drain.env[Environment.DELAYED_DUE_MS] <= now_ms() + 20_000
    assert case.drain.expire(before + 40_000) == 1
    assert case.drain.env[Environment.DELAYED_DUE_MS] >= before + 60_000


def test_a_batch_waits_until_its_timeout_and_no_longer(case: DrainCase) -> None:
    case.drain.hold(held(1, case.slot, 0, timeout_ms=20_000))
    due = case.drain.env[Environment.DELAYED_DUE_MS]
    assert case.drain.expire(due - 1) == 0
    assert (case.drain.expire(due), case.drain.delayed) == (1, 0)


def test_with_replicas_and_flush_messages_a_batch_waits_for_both(case: DrainCase) -> None:
    case.words[Slot.FLAGS] = SlotFlag.REPLICATED
    case.row[AppendRow.FLUSH_RECORDS], case.row[AppendRow.SYNC_END] = 1, 1
    case.drain.hold(held(1, case.slot, 0))
    case.words[Slot.HIGH_WATERMARK] = 1
    case.drain.release(case.slot)
    assert case.outcomes() == []
    case.words[Slot.DURABLE] = 1
    case.drain.release(case.slot)
    assert case.outcomes() == [(1, 0, 0)]


def test_an_in_sync_set_that_shrank_is_reported(case: DrainCase) -> None:
    case.words[Slot.FLAGS] = SlotFlag.REPLICATED
    case.drain.hold(held(1, case.slot, 0))
    case.row[AppendRow.TOO_FEW] = 1
    case.words[Slot.HIGH_WATERMARK] = 1
    case.drain.release(case.slot)
    assert case.outcomes() == [(1, NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1)]


def test_acks_of_the_leader_alone_do_not_depend_on_the_in_sync_set(case: DrainCase) -> None:
    case.drain.hold(held(1, case.slot, 0, acks=1))
    case.row[AppendRow.TOO_FEW] = 1
    case.words[Slot.DURABLE] = 1
    case.drain.release(case.slot)
    assert case.outcomes() == [(1, 0, 0)]


def test_a_closed_segment_does_not_look_like_too_few_replicas(case: DrainCase) -> None:
    """Each fact about a log has a word of its own in the append row."""
    case.row[AppendRow.ROLLED] = 1
    case.push(batch(), acks=-1)
    case.drain.run()
    case.words[Slot.DURABLE] = 1
    case.drain.release(case.slot)
    assert case.outcomes() == [(1, 0, 0)]
    assert np.all(case.drain.rows[: case.slot] == 0)


def test_a_drain_stops_until_all_its_entries_have_room_to_wait(case: DrainCase) -> None:
    case.push(batch(), acks=-1)
    assert case.drain.run() == 1
    case.drain.env[Environment.DELAYED_MAX] = 0
    case.push(batch(), acks=-1)
    assert case.drain.run() == 0
    assert case.drain.out[Drained.STOP] == Stop.ROOM
    case.drain.make_room()
    assert case.drain.run() == 1
    assert case.drain.delayed == 2
    case.words[Slot.DURABLE] = 2
    case.drain.release(case.slot)
    assert [outcome[2] for outcome in case.outcomes()] == [0, 1]
