"""The time slice that a thread asks for."""

import threading

import pytest

from kbroker.ipc import scheduling


def slice_ns() -> int | None:
    attributes = scheduling.attributes_of_thread()
    return None if attributes is None else attributes[scheduling.RUNTIME]


def test_a_thread_gets_the_slice_that_it_asks_for_and_others_keep_theirs() -> None:
    before = slice_ns()
    if not before:
        pytest.skip("this kernel knows no slices of ordinary threads")
    seen = []

    def run() -> None:
        seen.append((scheduling.ask_for_slice(300), slice_ns()))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(True, 300_000)]
    assert slice_ns() == before


def test_a_machine_without_the_system_call_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "SYSTEM_CALLS", {})
    assert slice_ns() is None
    assert not scheduling.ask_for_slice(100)
