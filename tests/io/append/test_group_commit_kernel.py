"""Plain syncs: the drain starts them and a kernel ends them; an answer never precedes the sync that
covers it."""

import contextlib
import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest

from kbroker.io.append.rows import AppendRow, Drained, Environment, FollowUp, SyncRow, SyncState
from kbroker.io.group_commit import RECORD
from kbroker.ipc.layout import Completion, Counter, Slot, SlotFlag, SlotState
from kbroker.ipc.ring import ring_push
from tests.io.append.drain_case import CAPACITY, DrainCase, batch

DELAY_NS = 20_000_000


class Threads:
    """The other end of both pipes: a test is the threads."""

    def __init__(self, case: DrainCase) -> None:
        self._jobs, case.drain.env[Environment.SYNC_JOBS] = os.pipe2(os.O_NONBLOCK)
        case.drain.env[Environment.SYNC_RESULTS], self._results = os.pipe2(os.O_NONBLOCK)

    def jobs(self, skip: int = 0) -> list[tuple[int, int]]:
        """(slot, descriptor) of the syncs that are asked for, after the first bytes."""
        try:
            reported = os.read(self._jobs, 1 << 16)
        except BlockingIOError:
            return []
        return [(-1 - token, fd) for token, fd, _ in RECORD.iter_unpack(reported[skip:])]

    def make_room(self, size: int) -> int:
        """Take bytes out of a full pipe; their number."""
        return len(os.read(self._jobs, size))

    def done(self, slot: int, error: int = 0) -> None:
        os.write(self._results, RECORD.pack(-1 - slot, error, 1000))


@pytest.fixture
def case(tmp_path: Path) -> DrainCase:
    made = DrainCase(tmp_path)
    made.words[Slot.FLAGS] = SlotFlag.DURABLE
    made.row[AppendRow.PLAIN_SYNC] = 1
    return made


@pytest.fixture
def threads(case: DrainCase) -> Threads:
    return Threads(case)


def fill(pipe: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))


def append(case: DrainCase) -> int:
    token = case.push(batch(), acks=-1)
    case.drain.run()
    return token


def test_the_drain_asks_for_the_sync_and_its_end_answers(case: DrainCase, threads: Threads) -> None:
    token = append(case)
    ((slot, fd),) = threads.jobs()
    assert slot == case.slot
    assert os.fstat(fd).st_ino == os.fstat(int(case.row[AppendRow.LOG_FD])).st_ino
    assert case.drain.out[Drained.FOLLOW_UP] == 0  # nothing is left to Python
    assert case.drain.take_synced(0) == []
    assert case.outcomes() == []
    threads.done(slot)
    assert case.drain.take_synced(0) == []
    assert case.outcomes() == [(token, 0, 0)]
    assert [case.words[word] for word in (Slot.DURABLE, Slot.HIGH_WATERMARK)] == [1, 1]
    assert case.words[Slot.LAST_STABLE] == 1
    assert case.words[Slot.HW_POSITION] == case.row[AppendRow.POSITION]
    assert case.drain.counters[slot, Counter.FLUSHES] == 1
    with pytest.raises(OSError):
        os.fstat(fd)


def test_a_completion_has_the_time_from_the_write_to_the_end_of_its_sync(
    case: DrainCase, threads: Threads
) -> None:
    """The test is the thread, with an fdatasync that takes at least DELAY_NS: the write has ended
    before it, and the completion follows it."""
    append(case)
    ((slot, _),) = threads.jobs()
    began_ns = time.monotonic_ns()
    while time.monotonic_ns() - began_ns < DELAY_NS:
        time.sleep(DELAY_NS / 1e9)
    ended_ns = time.monotonic_ns()
    threads.done(slot)
    case.drain.take_synced(0)
    ((*_, completed_ns, held_ns),) = [answer[: Completion.HELD_NS + 1] for answer in case.answers()]
    assert completed_ns >= ended_ns
    assert 0 < completed_ns - held_ns <= began_ns
    assert held_ns >= DELAY_NS


def test_appends_during_a_sync_share_the_next_which_begins_at_its_end(
    case: DrainCase, threads: Threads
) -> None:
    first, others = append(case), [append(case) for _ in range(3)]
    assert len(threads.jobs()) == 1
    end_of_first = int(case.row[AppendRow.POSITION]) // 4
    threads.done(case.slot)
    case.drain.take_synced(0)
    assert case.outcomes() == [(first, 0, 0)]
    assert case.words[Slot.HW_POSITION] == end_of_first
    assert len(threads.jobs()) == 1
    threads.done(case.slot)
    case.drain.take_synced(0)
    assert case.outcomes() == [(token, 0, n + 1) for n, token in enumerate(others)]
    assert threads.jobs() == []


def test_logs_whose_syncs_end_together_each_begin_their_next_one(case: DrainCase, threads: Threads) -> None:
    both = case.slot, case.slot + 1
    rows, slots = case.drain.rows, case.shared.slots
    rows[both[1]], slots[both[1]] = rows[both[0]], slots[both[0]]
    other = case.folder / "other"
    rows[both[1], AppendRow.LOG_FD] = os.open(other, os.O_RDWR | os.O_CREAT)
    tokens = []
    for slot in (*both, *both):
        case.slot = slot
        tokens.append(append(case))
    assert sorted(slot for slot, _ in threads.jobs()) == list(both)
    for slot in both:
        threads.done(slot)
    assert case.drain.take_synced(0) == []
    assert sorted(case.outcomes()) == [(token, 0, 0) for token in tokens[:2]]
    again = dict(threads.jobs())
    assert sorted(again) == list(both)
    for slot, fd in again.items():
        assert os.fstat(fd).st_ino == os.fstat(int(rows[slot, AppendRow.LOG_FD])).st_ino
        threads.done(slot)
    assert case.drain.take_synced(0) == []
    assert sorted(case.outcomes()) == [(token, 0, 1) for token in tokens[2:]]
    assert threads.jobs() == []
    os.close(int(rows[both[1], AppendRow.LOG_FD]))


def test_the_last_stable_offset_stays_before_an_open_transaction(case: DrainCase, threads: Threads) -> None:
    case.row[AppendRow.FIRST_UNSTABLE] = 0
    append(case)
    threads.done(case.slot)
    case.drain.take_synced(0)
    assert (case.words[Slot.HIGH_WATERMARK], case.words[Slot.LAST_STABLE]) == (1, 0)


@pytest.mark.parametrize("until", [2, 1])
def test_a_sync_that_puts_a_marker_on_disk_is_left_to_python(
    case: DrainCase, threads: Threads, until: int
) -> None:
    """The last stable offset stays before the transaction until then, and Python knows the next
    one."""
    case.row[AppendRow.FIRST_UNSTABLE], case.row[AppendRow.ENDED_UNTIL] = -1, until
    append(case)
    threads.done(case.slot)
    assert case.drain.take_synced(0) == ([] if until > 1 else [(-1 - case.slot, 0, 1000)])
    assert (case.words[Slot.HIGH_WATERMARK], case.words[Slot.LAST_STABLE]) == (int(until > 1), 0)


@pytest.mark.parametrize(
    "change", ["generation", "older generation", "recovering", "offline", "cut", "uncut", "error"]
)
def test_a_sync_of_a_removed_log_answers_no_append_and_is_left_to_python(
    case: DrainCase, threads: Threads, change: str
) -> None:
    append(case)
    if change.endswith("generation"):
        case.words[Slot.GENERATION] += -1 if change.startswith("older") else 1
    elif change in ("recovering", "offline"):
        case.words[Slot.STATE] = SlotState.RECOVERING if change == "recovering" else SlotState.OFFLINE
    elif change.endswith("cut"):
        case.row[AppendRow.CUTS] += -1 if change == "uncut" else 1
    error = errno.EIO if change == "error" else 0
    threads.done(case.slot, error)
    assert case.drain.take_synced(0) == [(-1 - case.slot, error, 1000)]
    assert case.outcomes() == []
    assert case.words[Slot.DURABLE] == 0
    assert case.drain.syncs[case.slot, SyncRow.STATE] == SyncState.IDLE


def test_a_sync_moves_neither_the_durable_offset_nor_the_high_watermark_back(
    case: DrainCase, threads: Threads
) -> None:
    append(case)
    case.words[Slot.DURABLE] = case.words[Slot.HIGH_WATERMARK] = 5
    threads.done(case.slot)
    assert case.drain.take_synced(0) == []
    assert (case.words[Slot.DURABLE], case.words[Slot.HIGH_WATERMARK]) == (5, 5)


def test_a_log_that_rolled_during_the_sync_is_synced_completely_next(
    case: DrainCase, threads: Threads
) -> None:
    first = append(case)
    append(case)
    case.row[AppendRow.PLAIN_SYNC] = 0
    threads.jobs()
    threads.done(case.slot)
    assert [(token, error) for token, error, _ in case.drain.take_synced(0)] == [
        (-1 - case.slot, SyncRow.NOT_STARTED)
    ]
    assert case.outcomes() == [(first, 0, 0)]
    assert threads.jobs() == []


def test_a_high_watermark_at_the_end_of_the_log_is_in_the_new_segment(
    case: DrainCase, threads: Threads
) -> None:
    """One that is not at the end is where its sync ended."""
    append(case)
    synced = int(case.row[AppendRow.POSITION])
    append(case)
    threads.done(case.slot)
    assert case.drain.take_synced(0) == []
    assert [case.words[word] for word in (Slot.HIGH_WATERMARK, Slot.HW_BASE, Slot.HW_POSITION)] == [
        1,
        0,
        synced,
    ]
    case.words[Slot.ACTIVE_BASE], case.words[Slot.ACTIVE_END] = 2, 0  # it rolled during the sync
    threads.done(case.slot)
    assert case.drain.take_synced(0) == []
    assert [case.words[word] for word in (Slot.HIGH_WATERMARK, Slot.HW_BASE, Slot.HW_POSITION)] == [2, 2, 0]


def test_without_threads_or_room_in_the_pipe_python_makes_the_sync(case: DrainCase, threads: Threads) -> None:
    jobs = int(case.drain.env[Environment.SYNC_JOBS])
    case.drain.env[Environment.SYNC_JOBS] = -1
    append(case)
    assert case.drain.out[Drained.FOLLOW_UP] == FollowUp.FLUSH
    case.drain.env[Environment.SYNC_JOBS] = jobs
    fill(jobs)
    append(case)
    assert case.drain.out[Drained.FOLLOW_UP] == FollowUp.FLUSH
    assert case.drain.syncs[case.slot, SyncRow.STATE] == SyncState.IDLE


def test_a_sync_that_the_pipe_did_not_take_is_still_due_by_flush_messages(
    case: DrainCase, threads: Threads
) -> None:
    """The count of records that are not synced was reset, and their appends waited until they
    expired."""
    case.words[Slot.FLAGS] = 0
    case.row[AppendRow.FLUSH_RECORDS] = 1
    fill(int(case.drain.env[Environment.SYNC_JOBS]))
    append(case)
    assert case.drain.out[Drained.FOLLOW_UP] == FollowUp.FLUSH
    assert case.row[AppendRow.UNFLUSHED_RECORDS] >= case.row[AppendRow.FLUSH_RECORDS]


def test_the_threads_have_every_sync_that_is_begun_and_no_other(tmp_path: Path) -> None:
    """A pipe with little room takes a part of a long write."""
    case = DrainCase(tmp_path, partitions=256)
    threads = Threads(case)
    jobs = int(case.drain.env[Environment.SYNC_JOBS])
    case.words[Slot.FLAGS], case.row[AppendRow.PLAIN_SYNC] = SlotFlag.DURABLE, 1
    rows, slots, syncs = case.drain.rows, case.shared.slots, case.drain.syncs
    for slot in range(200):
        rows[slot], slots[slot] = case.row, case.words
        syncs[slot, SyncRow.STATE], syncs[slot, SyncRow.AGAIN] = SyncState.PLAIN, 1
        syncs[slot, SyncRow.GENERATION] = case.words[Slot.GENERATION]
        syncs[slot, SyncRow.FD] = os.dup(int(case.row[AppendRow.LOG_FD]))
        threads.done(slot)
    fill(jobs)
    assert threads.make_room(4096) == 4096
    left = [-1 - token for token, error, _ in case.drain.take_synced(0) if error == SyncRow.NOT_STARTED]
    begun = threads.jobs(skip=(1 << 16) - 4096)
    assert 0 < len(begun) < 200
    for _, fd in begun:
        assert os.fstat(fd).st_ino == os.fstat(int(case.row[AppendRow.LOG_FD])).st_ino
        os.close(fd)
    pending = [slot for slot in range(200) if syncs[slot, SyncRow.STATE] != SyncState.IDLE]
    assert pending == [slot for slot, _ in begun]
    assert set(pending).union(left) == set(range(200))


def test_a_sync_for_another_caller_is_followed_by_one_for_the_append(
    case: DrainCase, threads: Threads
) -> None:
    case.drain.syncs[case.slot, SyncRow.STATE] = SyncState.WHOLE
    append(case)
    assert threads.jobs() == []
    assert case.drain.syncs[case.slot, SyncRow.AGAIN] == 1


def test_a_waiter_whose_ring_is_full_is_left_to_python_and_waits_on(
    case: DrainCase, threads: Threads
) -> None:
    append(case)
    ring = case.shared.completion_ring(1, 0)
    while ring_push(ring, CAPACITY, np.zeros(Completion.STRIDE // 8, np.int64)):
        pass
    case.words[Slot.WAITERS] = 1 << 1
    threads.done(case.slot)
    assert [(token, error) for token, error, _ in case.drain.take_synced(0)] == [
        (-1 - case.slot, SyncRow.NOT_NOTIFIED)
    ]
    assert case.words[Slot.WAITERS] == 1 << 1
    assert case.words[Slot.DURABLE] == 1


def test_a_further_sync_that_no_thread_takes_is_left_to_python(case: DrainCase, threads: Threads) -> None:
    first = append(case)
    append(case)
    fill(int(case.drain.env[Environment.SYNC_JOBS]))
    threads.done(case.slot)
    assert [(token, error) for token, error, _ in case.drain.take_synced(0)] == [
        (-1 - case.slot, SyncRow.NOT_STARTED)
    ]
    assert case.outcomes() == [(first, 0, 0)]
    assert case.drain.syncs[case.slot, SyncRow.STATE] == SyncState.IDLE
