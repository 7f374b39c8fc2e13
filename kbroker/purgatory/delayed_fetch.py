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

    positions: the fetched positions of each key, in the owner's own type. available(position):
    bytes that a fetch from this position can return now, up to the high watermark or last stable
    offset; negative if the partition can only answer an error (deleted, truncated), which completes
    the fetch at once. finish(fetch, expired): builds the answer from the present state of the log.

    It caches the available bytes of each key and their sum, so that a change of one key is one
    check, however many partitions the fetch has.
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
        """Whether min_bytes are available or a partition has an error, as of the last check of each
        key."""
        return self._refused or self._total >= self.min_bytes

    def can_complete_after(self, key: Any) -> bool:
        """Whether the fetch can complete, by the partitions of one key and the sum of all."""
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
