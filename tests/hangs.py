"""A pytest plugin: no test hangs for good, and one that would is named, with the stack of each
thread.

pytest-timeout's limit ends with a test's first exception. A teardown after it has no limit there,
nor has a call in C that does not come back to Python. Here the teardown has its own limit, which
interrupts each step of it. A process that does not come back after all limits ends, with its
stacks.
"""

import faulthandler
import os
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

TEARDOWN_S = 240.0  # an orderly stop of a broker has 150
BEYOND_S = 3 * TEARDOWN_S  # after a test's own limit: three steps of its teardown may hang
END_S = 300.0  # for the end of a process after its last test: other work may have the processors
STACKS_SIGNAL = signal.SIGUSR2  # the stacks of all threads go to standard error; the tier runner sends it


STANDARD_ERROR = pytest.StashKey[int]()
"""Of the process, not the one that pytest captures: a copy, as pytest closes its own before the
process ends."""


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    config.stash[STANDARD_ERROR] = os.dup(config.stash[fault_handler_stderr_fd_key])
    faulthandler.register(STACKS_SIGNAL, file=config.stash[STANDARD_ERROR], all_threads=True)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[None]:
    """Besides pytest-timeout's own timer, one that needs no Python code to run."""
    _end_after(settings.timeout + BEYOND_S, item.config)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=item.config.stash[STANDARD_ERROR])
        pytest.fail(f"the teardown of {item.nodeid} took more than {TEARDOWN_S} s")

    # pytest's own plugin stops the timer in C at a test's first exception, as pytest-timeout does.
    _end_after(BEYOND_S + TEARDOWN_S, item.config)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, TEARDOWN_S, TEARDOWN_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A thread that nobody ends, or a destructor in C, must not keep the process. A worker of
    pytest-xdist waits for its controller, which ends it in time."""
    if not hasattr(session.config, "workerinput"):
        _end_after(END_S, session.config)


def _end_after(seconds: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[STANDARD_ERROR])
