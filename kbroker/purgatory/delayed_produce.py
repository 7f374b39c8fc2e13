"""A produce with acks=-1 that waits until its records are as safe as the topic asks (Kafka's
DelayedProduce).
"""

from collections.abc import Callable

from kbroker.purgatory.delayed_operation import DelayedOperation


class DelayedProduce(DelayedOperation):
    """Held by the IO worker that owns the slots; watched by each slot it waits for.

    pending: slot -> offset that must be reached (the offset after the batch). What is reached is taken
    out, so when the produce expires, `pending` names exactly the slots to answer with REQUEST_TIMED_OUT.
    reached(slot): the slot's high watermark.
    finish(produce, expired): completes the request's append entries.
    """

    __slots__ = ("finish", "pending", "reached")

    def __init__(
        self,
        expiry_ms: int,
        pending: dict[int, int],
        reached: Callable[[int], int],
        finish: "Callable[[DelayedProduce, bool], None]",
    ) -> None:
        super().__init__(expiry_ms)
        self.pending = pending
        self.reached = reached
        self.finish = finish

    def can_complete(self) -> bool:
        reached = self.reached
        for slot in [slot for slot, offset in self.pending.items() if reached(slot) >= offset]:
            del self.pending[slot]
        return not self.pending

    def on_complete(self, expired: bool) -> None:
        self.finish(self, expired)
