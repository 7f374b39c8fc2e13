"""Threads beside a test end with it."""

import threading

import pytest

from tests.peer.side_work import SideWork, Unfinished, beside, in_time


def test_work_lasts_until_the_end_of_the_with() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(done: threading.Event) -> None:
        begun.set()
        assert done.wait(60)
        ended.set()

    with beside(work):
        assert begun.wait(60)
        assert not ended.is_set()
    assert ended.is_set()


def test_a_failure_of_the_work_fails_the_test() -> None:
    with pytest.raises(ZeroDivisionError), beside(lambda _: 1 // 0):
        pass


def test_work_ends_with_a_test_that_fails() -> None:
    ended = threading.Event()

    def work(done: threading.Event) -> None:
        assert done.wait(60)
        ended.set()

    with pytest.raises(ZeroDivisionError), beside(work):
        raise ZeroDivisionError
    assert ended.is_set()


def test_work_that_never_ends_is_reported_with_its_place() -> None:
    release = threading.Event()

    def the_place_that_waits() -> None:
        release.wait(60)

    with pytest.raises(Unfinished, match="the_place_that_waits"):
        in_time(the_place_that_waits, 1)
    release.set()


def test_the_process_does_not_wait_for_it() -> None:
    release = threading.Event()
    assert SideWork(lambda: release.wait(60))._thread.daemon
    release.set()
