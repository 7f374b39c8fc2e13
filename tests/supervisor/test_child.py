"""A child that dies once is back at once; one that keeps dying does not eat the machine."""

import errno
import gc
import os
import signal
from typing import Any

import pytest

from kbroker.ipc.clock import monotonic_ms
from kbroker.supervisor.child import HEALTHY_MS, HELD_BACK, MAX_DELAY_MS, BackOff, Child
from kbroker.supervisor.roles import ROLES


def test_first_death_restarts_at_once() -> None:
    assert BackOff().next_delay_ms(lived_ms=5) == 0


def test_delays_double_up_to_a_limit() -> None:
    back_off = BackOff()
    delays = [back_off.next_delay_ms(lived_ms=1) for _ in range(12)]
    assert delays[:4] == [0, 20, 40, 80]
    assert delays[-1] == MAX_DELAY_MS


def test_long_life_forgives() -> None:
    back_off = BackOff()
    for _ in range(5):
        back_off.next_delay_ms(lived_ms=1)
    assert back_off.next_delay_ms(lived_ms=HEALTHY_MS) == 0


def test_a_fork_that_fails_holds_back_no_signals_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the broker could not be stopped until a fork succeeds."""

    def refuse() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(os, "fork", refuse)
    child = Child(ROLES[0], 0, 0)
    unused: Any = None
    with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)):
        child.fork(unused, [])
    assert not child.running
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()).isdisjoint(HELD_BACK)


def test_a_child_that_cannot_be_started_now_is_due_soon() -> None:
    child, began_ms = Child(ROLES[0], 0, 0), monotonic_ms()
    child.start_later(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
    assert began_ms + MAX_DELAY_MS <= child.restart_at_ms <= monotonic_ms() + MAX_DELAY_MS


def test_a_life_of_a_second_is_long_and_the_next_delays_begin_again() -> None:
    back_off = BackOff()
    delays = [back_off.next_delay_ms(lived_ms) for lived_ms in (1, 1, 1, HEALTHY_MS - 1, HEALTHY_MS, 1, 1)]
    assert delays == [0, 20, 40, 80, 0, 20, 40]


def test_a_delay_is_a_second_at_most() -> None:
    back_off = BackOff()
    assert [back_off.next_delay_ms(0) for _ in range(9)] == [0, 20, 40, 80, 160, 320, 640, 1000, 1000]


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [(0, "exit code 0", 0), (3 << 8, "exit code 3", 3), (signal.SIGKILL, "killed by SIGKILL", -9)],
)
def test_a_dead_child_is_reaped_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, status: int, text: str, code: int
) -> None:
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(os, "waitpid", lambda pid, _: (pid, int(status)))
    child = Child(ROLES[0], 0, 0, pid=77, pidfd=read)
    assert child.running
    assert child.reap() == text
    assert (child.exit_code, child.running, child.pid, child.pidfd) == (code, False, 0, -1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(read)


def test_a_signal_is_sent_to_a_running_child_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int]] = []

    def send(pidfd: int, number: int) -> None:
        sent.append((pidfd, number))
        if len(sent) > 1:
            raise ProcessLookupError

    monkeypatch.setattr(signal, "pidfd_send_signal", send)
    Child(ROLES[0], 0, 0).signal(signal.SIGTERM)
    child = Child(ROLES[0], 3, 0, pid=77, pidfd=5)
    child.signal(signal.SIGTERM)
    child.signal(signal.SIGKILL)  # it has just ended
    assert sent == [(5, signal.SIGTERM), (5, signal.SIGKILL)]
    assert child.name == f"{ROLES[0].name} 3"
