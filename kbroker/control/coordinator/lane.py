"""The interface between a runtime and a fast path that decides operations without its machine."""

from collections.abc import Callable
from typing import Protocol


class Lane(Protocol):
    """Operations that are decided without the machine, as long as no other operation changes their
    key (`lane.py`)."""

    def forget(self, key: str) -> None:
        """Another operation of the key begins: decide nothing more for it."""

    def forget_all(self) -> None:
        """Forget the fast path's state of every key."""

    def in_flight(self, key: str) -> bool:
        """Whether records of the key are being written."""

    def when_idle(self, key: str, then: Callable[[], None]) -> None:
        """Call once when they have been written."""
