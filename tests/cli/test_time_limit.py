"""A call that hangs ends nothing but itself."""

import os
import signal
import threading
import time

import pytest

from kbroker.cli import time_limit
from kbroker.cli.failures import CommandFailed, Unreachable
from kbroker.cli.time_limit import within

LONG_S = 3600.0


def refuse(error: BaseException) -> int:
    raise error


def test_a_call_in_time_gives_its_result_or_error() -> None:
    assert within(LONG_S, lambda: 7) == 7
    for error in (CommandFailed("no"), TimeoutError("its own"), KeyError("a bug")):
        with pytest.raises(type(error)) as caught:
            within(LONG_S, lambda error=error: refuse(error))  # type: ignore[misc]
        assert caught.value is error


def test_a_call_that_hangs_is_given_up() -> None:
    end = threading.Event()
    with pytest.raises(Unreachable, match=r"^no answer within 0\.05 s$"):
        within(0.05, end.wait)
    end.set()


@pytest.mark.parametrize("hangs", [False, True])
def test_an_interrupt_leaves_the_call_time_to_close_its_clients(
    hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "GRACE_S", 0.05 if hangs else LONG_S)
    end, closed = threading.Event(), threading.Event()

    def call() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        end.wait(LONG_S if hangs else 0.05)
        time.sleep(0)
        closed.set()

    with pytest.raises(KeyboardInterrupt):
        within(LONG_S, call)
    assert closed.is_set() is not hangs
    end.set()
