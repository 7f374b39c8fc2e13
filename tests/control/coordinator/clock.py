"""A clock that tests set."""

from collections.abc import Callable
from typing import Any


class Clock:
    """A loop and a clock in one: remembers when it is to be called, never sleeps."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Any:
        entry = (self.now_ms + delay_s * 1000, action)
        self.due.append(entry)

        class Handle:
            def cancel(handle) -> None:  # noqa: N805
                if entry in self.due:
                    self.due.remove(entry)

        return Handle()

    def advance(self, to_ms: int) -> None:
        """Time passes; the loop calls what is due."""
        while self.due and min(self.due, key=lambda e: e[0])[0] <= to_ms:
            at, action = min(self.due, key=lambda e: e[0])
            self.due.remove((at, action))
            self.now_ms = max(self.now_ms, int(at))
            action()
        self.now_ms = to_ms
