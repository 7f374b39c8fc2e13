"""The wait of an IO worker: it sleeps until there are entries, an event of a descriptor, or a time,
and never while entries can be answered."""

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kbroker.io.append.rows import Environment, WaitResult
from kbroker.io.append.wait_kernel import AT_ONCE, BLOCKED_MS, MAX_WITHOUT_EPOLL
from kbroker.ipc.layout import ProcessLine, Ring
from kbroker.ipc.ring import wake_process
from kbroker.metrics import layout as ml
from tests.io.append.drain_case import CAPACITY, NEVER, DrainCase, batch

SOON_MS = 30


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Case:
    """A drain whose wait has an eventfd, a pipe of syncs and another pipe."""

    def __init__(self, folder: Path) -> None:
        self.case = DrainCase(folder)
        self.drain, self.shared = self.case.drain, self.case.shared
        self.process = self.shared.worker_process(0)
        self.line = self.shared.processes[self.process]
        self.synced, self.other = os.pipe(), os.pipe()
        self.epoll = select.epoll()
        self.epoll.register(self.shared.event_fds[self.process], select.EPOLLIN | select.EPOLLET)
        for reader, _ in (self.synced, self.other):
            self.epoll.register(reader, select.EPOLLIN)
        self.drain.waits_for(self.epoll.fileno(), self.shared.event_fds[self.process])
        self.drain.env[Environment.SYNC_RESULTS] = self.synced[0]

    def close(self) -> None:
        self.epoll.close()
        for fd in (*self.synced, *self.other):
            os.close(fd)

    def slept_ms(self, due_ms: int, until_ms: int, found: int) -> int:
        """Of a wait that must find this."""
        began = now_ms()
        assert self.drain.wait(due_ms, until_ms) == found
        return now_ms() - began

    def asleep(self, wake: Callable[[], object]) -> int:
        """What a wait without an end finds that another thread ends once it sleeps."""
        with ThreadPoolExecutor(1) as other:
            found = other.submit(self.drain.wait, NEVER, NEVER)
            deadline = time.monotonic() + 60
            while not self.line[ProcessLine.SLEEPING] and time.monotonic() < deadline:
                time.sleep(0.001)
            wake()
            return found.result(60)


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    made.close()


def test_a_worker_without_entries_sleeps_until_other_work_is_due(case: Case) -> None:
    due_ms = now_ms() + SOON_MS
    assert case.slept_ms(due_ms, due_ms, WaitResult.OTHER) >= SOON_MS - 1
    assert not case.line[ProcessLine.SLEEPING], "it is awake again"


def test_the_end_of_a_wait_is_no_other_work(case: Case) -> None:
    assert case.slept_ms(NEVER, now_ms() + SOON_MS, 0) >= SOON_MS - 1


def test_a_delayed_produce_that_expires_ends_the_wait(case: Case) -> None:
    case.drain.env[Environment.DELAYED_DUE_MS] = now_ms() + SOON_MS
    assert case.slept_ms(NEVER, NEVER, WaitResult.OTHER) >= SOON_MS - 1


def test_a_client_that_pushes_an_entry_wakes_the_worker(case: Case) -> None:
    def push() -> None:
        case.case.push(batch())
        wake_process(case.shared, case.process)

    assert case.asleep(push) == 0
    assert case.drain.run() == 1


def test_a_signal_ends_the_wait_and_is_no_other_work(case: Case) -> None:
    """Its handler, which Python runs then, interrupts the sleep if there is work."""
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, SOON_MS / 1000)
        assert case.slept_ms(NEVER, NEVER, 0) >= SOON_MS - 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_entries_that_are_there_are_no_reason_to_sleep(case: Case) -> None:
    """Their client may have found the worker awake, and written no event."""
    case.case.push(batch(), client=1)
    assert case.drain.wait(NEVER, NEVER) == 0
    assert not case.line[ProcessLine.SLEEPING]


def test_a_wait_names_the_ends_of_syncs_and_other_events(case: Case) -> None:
    assert case.asleep(lambda: os.write(case.synced[1], b"x")) == WaitResult.SYNCED
    os.write(case.other[1], b"x")
    assert case.drain.wait(NEVER, NEVER) == WaitResult.SYNCED | WaitResult.OTHER
    os.read(case.synced[0], 1)
    assert case.drain.wait(NEVER, NEVER) == WaitResult.OTHER


def test_entries_that_always_wait_keep_no_event_of_a_descriptor_waiting(case: Case) -> None:
    os.write(case.other[1], b"x")
    case.case.push(batch())
    found = [case.drain.wait(NEVER, NEVER) for _ in range(2 * MAX_WITHOUT_EPOLL)]
    assert [number for number, each in enumerate(found, 1) if each] == [
        MAX_WITHOUT_EPOLL,
        2 * MAX_WITHOUT_EPOLL,
    ]
    assert [case.drain.wait(NEVER, AT_ONCE) for _ in range(MAX_WITHOUT_EPOLL)][-1] == WaitResult.OTHER


def test_work_that_is_due_does_not_wait_until_the_rings_are_empty(case: Case) -> None:
    case.case.push(batch())
    found = [case.drain.wait(0, 0) for _ in range(MAX_WITHOUT_EPOLL)]
    assert found[-1] == WaitResult.OTHER


def test_a_worker_whose_client_has_no_room_for_answers_tries_again_soon(case: Case) -> None:
    ring = case.shared.completion_ring(0, 0)
    head, tail = (ctypes.c_int64.from_address(ring + 8 * word) for word in (Ring.HEAD, Ring.TAIL))
    head.value = CAPACITY
    case.case.push(batch())
    assert case.drain.run() == 0
    assert case.drain.blocked
    assert BLOCKED_MS - 1 <= case.slept_ms(NEVER, NEVER, 0) < 30_000
    tail.value = CAPACITY
    assert case.drain.run() == 1
    assert not case.drain.blocked


def test_the_time_of_a_wait_is_idle_and_its_end_a_sign_of_life(case: Case) -> None:
    before = int(case.drain.metrics.words[ml.IDLE_NS])
    began = time.monotonic_ns()
    case.drain.wait(NEVER, now_ms() + SOON_MS)
    assert case.drain.metrics.words[ml.IDLE_NS] - before >= (SOON_MS - 1) * 1_000_000
    assert began < case.line[ProcessLine.HEARTBEAT_NS] <= time.monotonic_ns()
