"""Settings of a share group that decide about its records."""

from typing import NamedTuple

_MAX_DOUBLINGS = 32  # more than any limit of deliveries and any pause has


class Limits(NamedTuple):
    """dead_letters: the group has a dead-letter topic. renewal: its members may renew locks.
    backoff_ms, max_backoff_ms: pause after the first delivery of a record, and the maximum
    pause."""

    lock_ms: int = 30_000
    delivery_count: int = 5
    records: int = 2000
    dead_letters: bool = False
    renewal: bool = True
    backoff_ms: int = 0
    max_backoff_ms: int = 60_000

    def retry_at(self, delivery_count: int, now_ms: int) -> int:
        """The time from which a record with this delivery count may be delivered again; 0 is
        now."""
        if not self.backoff_ms or not delivery_count:
            return 0
        doublings = min(delivery_count - 1, _MAX_DOUBLINGS)
        return now_ms + min(self.backoff_ms << doublings, self.max_backoff_ms)
