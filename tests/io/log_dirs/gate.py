"""A gate before a call, at which a thread of an IO worker waits."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.io.three_logs import WAIT_S


class Gate:
    """Stops a thread, by its name, before a call until it is opened. Calls of the loop and of other
    threads pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, thread: str, owner: Any, name: str) -> None:
        self._open = threading.Event()
        self._reached = threading.Event()
        call: Callable[..., Any] = getattr(owner, name)

        def guarded(*arguments: Any, **settings: Any) -> Any:
            if threading.current_thread().name.startswith(f"{thread}_"):
                self._reached.set()
                assert self._open.wait(WAIT_S)
            return call(*arguments, **settings)

        monkeypatch.setattr(owner, name, guarded)

    def wait(self) -> None:
        assert self._reached.wait(WAIT_S)

    def open(self) -> None:
        self._open.set()
