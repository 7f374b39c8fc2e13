"""The purgatory of fetches: delayed fetches watch the slots of their partitions.

Runs in: network. Owner: the Fetches.
"""

import asyncio

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.clock import monotonic_ms
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows.topic_kernel import announce_waiter
from kbroker.net.usage.request_counts import RequestCounts
from kbroker.purgatory.purgatory import Purgatory


class FetchPurgatory(Purgatory[int]):
    """Sets a waiter bit in each watched slot, so that its IO worker reports when the slot advances.
    A timer of the event loop expires fetches."""

    __slots__ = ("_client", "_counts", "_slots", "_timer", "_timer_ms")

    def __init__(self, tables: NetworkTables, config: BrokerConfig, counts: RequestCounts) -> None:
        interval = config.get_int("fetch.purgatory.purge.interval.requests")
        super().__init__(monotonic_ms(), interval, self._set_waiter_bit)
        self._slots = tables.shared.slots
        self._client = tables.client
        self._counts = counts
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def _set_waiter_bit(self, slot: int) -> None:
        announce_waiter(self._slots[slot].ctypes.data, self._client)

    def on_advanced(self, slot: int) -> None:
        """The IO worker cleared our waiter bit: complete the fetches that can be completed, and set
        the bit again for the others."""
        self.check_and_complete(slot)
        if self.waits_for(slot):
            self._set_waiter_bit(slot)
            self.check_and_complete(slot)

    def set_timer(self) -> None:
        """Wake up when the next fetch has waited long enough."""
        due = self.next_expiry_ms()
        if due is None or (self._timer is not None and self._timer_ms <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(0, due - monotonic_ms()) / 1000
        self._timer_ms = due
        self._timer = asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        try:
            self._counts.fetch_expired(self.expire(monotonic_ms()))
        finally:  # also for the fetches that expire after one whose answer fails by a bug
            self.set_timer()
