"""Answers for which a client's completion ring had no room: they are kept, and tried again."""

from collections.abc import Callable
from typing import Any


class LateAnswers:
    """Runs in: io. Owner: a part of the IO worker that answers clients. complete: answers one
    entry; False when its client's ring is full, which the client drains soon."""

    def __init__(self, complete: Callable[..., bool]) -> None:
        self._complete = complete
        self._waiting: list[tuple[Any, ...]] = []
        """Arguments of `complete`."""

    @property
    def waiting(self) -> bool:
        """Whether an answer waits for room; then `retry` must be called soon."""
        return bool(self._waiting)

    def answer(self, *arguments: Any) -> None:
        """Answer an entry, now or by a later `retry`."""
        if not self._complete(*arguments):
            self._waiting.append(arguments)

    def retry(self) -> None:
        """Try each waiting answer once."""
        waiting, self._waiting = self._waiting, []
        for arguments in waiting:
            self.answer(*arguments)
