"""A child of a test ends with it, whatever the child does."""

import gc
import os
import signal
import threading

import pytest

from tests.forked_child import MANY_OBJECTS, ForkedChild, wait_until


def test_a_child_that_raises_ends_with_its_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with ForkedChild(lambda: pytest.fail("in the child")) as child:
        assert child.wait() == 1
    assert "Failed: in the child" in capfd.readouterr().err


def test_a_child_that_hangs_ends_with_a_test_that_fails() -> None:
    with pytest.raises(ZeroDivisionError), ForkedChild(signal.pause) as child:
        raise ZeroDivisionError
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_a_child_that_takes_too_long_is_killed() -> None:
    with ForkedChild(signal.pause) as child:
        assert child.wait(within_s=0.01) == -signal.SIGKILL


class Client:
    """As that of a library with a thread, which has to end before the client does. It is in a
    cycle, so that the garbage collector ends it."""

    def __init__(self) -> None:
        self.itself = self
        self.stop, self.stopped = threading.Event(), threading.Event()
        threading.Thread(target=_serve, args=(self.stop, self.stopped), daemon=True).start()

    def __del__(self) -> None:
        self.stop.set()
        self.stopped.wait()


def _serve(stop: threading.Event, stopped: threading.Event) -> None:
    stop.wait()
    stopped.set()


def test_a_child_does_not_end_the_clients_of_earlier_tests() -> None:
    """A network process collected garbage at its start, and waited for a thread of its parent."""
    gc.disable()
    try:
        Client()
        with ForkedChild(gc.collect) as child:
            assert child.wait(within_s=20) == 0
    finally:
        gc.enable()


def test_a_child_that_ends_or_hangs_is_not_waited_for() -> None:
    with ForkedChild(lambda: None) as child:
        with pytest.raises(AssertionError, match="the child has ended"):
            wait_until(lambda: False, child.pid)
        assert child.wait() == 0
    with ForkedChild(signal.pause) as child:
        with pytest.raises(AssertionError, match="the child takes too long"):
            wait_until(lambda: False, child.pid, within_s=0.01)
        wait_until(lambda: True, child.pid)


def test_the_objects_of_a_long_run_are_searched_for_garbage_once() -> None:
    alive = [[number] for number in range(MANY_OBJECTS + 1)]
    frozen = gc.get_freeze_count()
    with ForkedChild(lambda: None) as child:
        assert child.wait() == 0
    assert gc.get_freeze_count() > frozen + MANY_OBJECTS
    alive.clear()
    assert gc.get_freeze_count() < frozen + MANY_OBJECTS, "what is no longer used is freed, frozen or not"
