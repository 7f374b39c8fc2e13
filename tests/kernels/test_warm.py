"""The end of the compiling processes, reported to the start that waits for them."""

import signal

import pytest

from kbroker.kernels.warm import STOPPED, outcome


def test_processes_that_end_in_order_are_not_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome([0, 0]) == 0
    assert capsys.readouterr().err == ""


def test_a_killed_process_is_named_with_the_probable_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome([0, -signal.SIGKILL]) == 1
    assert capsys.readouterr().err == (
        "kernels: SIGKILL ended a process that compiled, as the system does when memory is short\n"
    )
    assert outcome([-signal.SIGSEGV, 1]) == 1
    assert capsys.readouterr().err == "kernels: SIGSEGV ended a process that compiled\n"


def test_a_stop_is_no_failure_of_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome([-signal.SIGTERM, 0]) == STOPPED
    assert outcome([-signal.SIGTERM, -signal.SIGTERM]) == 143
    assert capsys.readouterr().err == ""
