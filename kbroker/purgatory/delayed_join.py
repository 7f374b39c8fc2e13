"""The join phase of a classic group: waits until every known member has rejoined (Kafka's DelayedJoin)."""

from collections.abc import Callable

from kbroker.purgatory.delayed_operation import DelayedOperation


class DelayedJoin(DelayedOperation):
    """Held by the group's coordinator; watched by the group id.

    all_joined(): every member that must rejoin has done so. False for the initial rebalance, which always
    waits its delay. finish(expired): starts the next generation with those who joined.
    """

    __slots__ = ("all_joined", "finish")

    def __init__(
        self, expiry_ms: int, all_joined: Callable[[], bool], finish: Callable[[bool], None]
    ) -> None:
        super().__init__(expiry_ms)
        self.all_joined = all_joined
        self.finish = finish

    def can_complete(self) -> bool:
        return self.all_joined()

    def on_complete(self, expired: bool) -> None:
        self.finish(expired)
