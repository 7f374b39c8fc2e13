"""A fetch that waits for fetch.min.bytes or fetch.max.wait.ms (Kafka's DelayedFetch).

A condition without I/O.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kbroker.purgatory.delayed_operation import DelayedOperation

Key = TypeVar("Key", bound=Hashable)
Position = TypeVar("Position")


class DelayedFetch(DelayedOperation, Generic[Key, Position]):
    """Held by the network process that owns the connection; watched by each fetched slot.

    positions: by key, what is read, in the owner's own terms. available(position): bytes that could
    be returned from there now, up to the high watermark or last stable offset; negative when the
    partition can only answer an error (gone, truncated), which completes the fetch at once.
    finish(fetch, expired): builds the answer from what is there at that moment.

    It keeps the sum of what its keys had when they were looked at last: a change of one key costs
    one look, however many partitions the fetch has.
    """

    __slots__ = ("_bytes", "_refused", "_total", "available", "finish", "min_bytes", "positions")

    def __init__(
        self,
        expiry_ms: int,
        min_bytes: int,
        positions: Mapping[Key, Sequence[Position]],
        available: Callable[[Position], int],
        finish: "Callable[[DelayedFetch[Key, Position], bool], None]",
    ) -> None:
        super().__init__(expiry_ms)
        self.min_bytes = min_bytes
        self.positions = positions
        self.available = available
        self.finish = finish
        self._bytes: dict[Key, int] = {}
        self._total = 0
        self._refused = False

    def can_complete(self) -> bool:
        """Whether min_bytes are there, or a partition has an error, as of the last look at each
        key."""
        return self._refused or self._total >= self.min_bytes

    def can_complete_after(self, key: Any) -> bool:
        """Look at the partitions of one key."""
        found = 0
        for position in self.positions[key]:
            part = self.available(position)
            if part < 0:
                self._refused = True
                return True
            found += part
        before = self._bytes.get(key, 0)
        if found != before:
            self._bytes[key] = found
            self._total += found - before
        return self._total >= self.min_bytes

    def on_complete(self, expired: bool) -> None:
        self.finish(self, expired)
