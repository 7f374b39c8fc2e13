"""A child of a test ends with it, whatever the child does."""

import os
import signal

import pytest

from tests.forked_child import ForkedChild


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
