"""A fetch that waits for fetch.min.bytes or fetch.max.wait.ms (Kafka's DelayedFetch).

A condition without I/O.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from kbroker.purgatory.delayed_operation import DelayedOperation

Position = TypeVar("Position")


class DelayedFetch(DelayedOperation, Generic[Position]):
    """Held by the network process that owns the connection; watched by each fetched slot.

    positions: what is read, in the owner's own terms (slot and offset, say). available(position):
    bytes that could be returned from there now, up to the high watermark or last stable offset;
    negative when the partition can only answer an error (gone, truncated), which completes the
    fetch at once. finish(fetch, expired): builds the answer from what is there at that moment.
    """

    __slots__ = ("available", "finish", "min_bytes", "positions")

    def __init__(
        self,
        expiry_ms: int,
        min_bytes: int,
        positions: Sequence[Position],
        available: Callable[[Position], int],
        finish: "Callable[[DelayedFetch[Position], bool], None]",
    ) -> None:
        super().__init__(expiry_ms)
        self.min_bytes = min_bytes
        self.positions = positions
        self.available = available
        self.finish = finish

    def can_complete(self) -> bool:
        return enough_bytes(map(self.available, self.positions), self.min_bytes)

    def on_complete(self, expired: bool) -> None:
        self.finish(self, expired)


def enough_bytes(available: Iterable[int], min_bytes: int) -> bool:
    """Whether a fetch is answered now: min_bytes are there, or a partition has an error (negative)
    to tell.
    """
    total = 0
    for part in available:
        if part < 0:
            return True
        total += part
        if total >= min_bytes:
            return True
    return total >= min_bytes
