"""A process that dies at every crash point in turn, within a test's own process."""

from collections.abc import Callable
from types import ModuleType

import pytest


class Died(BaseException):
    """In place of kill -9: no code but a ``finally`` runs."""


class Deaths:
    """Lets a step die at its first crash point, at its second, and so on. place: of the last death;
    places: of all. modules: those whose crash points count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        self.place = ""
        self.places: set[str] = set()
        self._number = 0
        self._left = 0
        for module in modules:
            monkeypatch.setattr(module, "crash_point", self._reached)

    def next(self, step: Callable[[], object]) -> bool:
        """Run the step until the next place; False when it ended before. After the call no place is
        armed."""
        self._number += 1
        self._left = self._number
        try:
            step()
        except Died:
            return True
        self._left = 0
        return False

    def _reached(self, place: str) -> None:
        if self._left:
            self._left -= 1
            if not self._left:
                self.place = place
                self.places.add(place)
                raise Died(place)
