"""Requests of the http process to the broker at a time: a bounded number in all, and of each
user."""

import threading
from collections import Counter
from typing import Final

AT_A_TIME: Final = 8
"""Maximum of requests of all callers. Further ones wait for a short time, then they are refused."""
OF_A_USER: Final = 3
"""Maximum of requests of one user. The broker may let each of them wait for seconds: because of a
quota, or because others have guessed the user's password. Other users keep their turns."""


class Turns:
    """Runs in: http. Owner: shared by the callers of one listener. Thread-safe."""

    def __init__(self, at_a_time: int = AT_A_TIME) -> None:
        self._at_a_time = at_a_time
        self._taken: Counter[str | None] = Counter()
        self._changed = threading.Condition()

    def take(self, user: str | None, wait_s: float) -> bool:
        """Wait for a turn; `leave` ends it. False if there is none in this time. user: None for
        anonymous clients, which have no separate bound."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(user), wait_s):
                return False
            self._taken[user] += 1
            return True

    def leave(self, user: str | None) -> None:
        """The request has ended."""
        with self._changed:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]
            self._changed.notify_all()

    def _has_room(self, user: str | None) -> bool:
        return self._taken.total() < self._at_a_time and (user is None or self._taken[user] < OF_A_USER)
