"""An operation in a purgatory: a condition, a time limit and a completion (Kafka's
DelayedOperation)."""

from collections.abc import Hashable

from kbroker.purgatory.timing_wheel import TimerEntry


class DelayedOperation(TimerEntry):
    """Completed exactly once: when its condition holds, when it is forced, or when `expiry_ms` has
    come.

    Subclasses define `can_complete` and `on_complete`; only the purgatory that watches it sets
    `completed`.
    """

    __slots__ = ("completed",)

    def __init__(self, expiry_ms: int) -> None:
        self.expiry_ms = expiry_ms
        self._bucket = None
        self.completed = False

    def can_complete(self) -> bool:
        """Whether the condition holds now. Called often: must be cheap, and must not complete the
        operation."""
        raise NotImplementedError

    def can_complete_after(self, key: Hashable) -> bool:  # noqa: ARG002  for operations with very many keys
        """Whether the condition holds now, if only `key` can have changed since the last check."""
        return self.can_complete()

    def on_complete(self, expired: bool) -> None:
        """Called once. expired: time ran out before the condition held. May watch other
        operations."""
        raise NotImplementedError
