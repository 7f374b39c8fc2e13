"""The main of a network process."""

import sys
from typing import Any

import pytest
import uvloop

from kbroker.net import worker


def test_threads_give_way_to_the_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel gives up the interpreter's lock, so the loop waits for a busy thread after
    each."""
    found: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", found.append)
    monkeypatch.setattr(uvloop, "run", lambda serving: serving.close())
    context: Any = None
    worker.main(context, None, {})
    assert found
    assert found[0] < sys.getswitchinterval() / 5
