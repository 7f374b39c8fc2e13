"""The main of an IO worker."""

import sys
from typing import Any

import pytest

from kbroker.io import worker


def test_threads_give_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for a busy thread, such as that of the checkpoint of all logs, after each
    drain."""
    found: list[float] = []

    class Stopped:
        def __init__(self, _: object) -> None: ...

        def run(self) -> None:
            found.append(-1)

    monkeypatch.setattr(sys, "setswitchinterval", found.append)
    monkeypatch.setattr(worker, "Worker", Stopped)
    context: Any = None
    worker.main(context)
    switch_s, ran = found
    assert ran == -1, "before the threads start"
    assert 0 < switch_s < sys.getswitchinterval() / 5
