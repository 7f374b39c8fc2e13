"""connection_creation_rate: limits how many connections an address may open per second (KIP-612).

Kafka's Rate over quota.window.num samples. A connection above the rate is held for a while, at most
one window, and then closed. Runs in: acceptor. Pure: the caller passes the time.
"""

from collections import Counter
from collections.abc import Mapping

from kbroker.ipc.rate_limit import excess_ms, samples_ms

DEFAULT = ""  # the address of the quota of addresses without a quota of their own

FORGET_FROM = 1024
"""Addresses that are kept before those that have become quiet are forgotten: an IPv6 network has
any number of them."""


class ConnectionRates:
    """Limits and opened connections by address. samples, window_ms: quota.window.num and
    .size.seconds."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._limits: dict[str, float] = {}
        self._opened: dict[str, Counter[int]] = {}  # address -> window -> connections
        self._forget_at = FORGET_FROM

    @property
    def limited(self) -> bool:
        """Whether any address has a limit."""
        return bool(self._limits)

    def change(self, limits: Mapping[str, float | None], first: bool) -> None:
        """Add limits; None removes one. first: remove the earlier limits."""
        if first:
            self._limits.clear()
        for host, limit in limits.items():
            if limit is None:
                self._limits.pop(host, None)
            else:
                self._limits[host] = limit
        if not self._limits:
            self._opened.clear()

    def throttle_ms(self, host: str, now_ms: int) -> int:
        """Count a new connection. Returns 0, or how long to hold the connection if it is above the
        rate; then it is not counted."""
        limit = self._limits.get(host, self._limits.get(DEFAULT))
        if limit is None:
            return 0
        window, into_ms = divmod(now_ms, self._window_ms)
        if host not in self._opened and len(self._opened) >= self._forget_at:
            self.forget_quiet(now_ms)
            self._forget_at = max(FORGET_FROM, 2 * len(self._opened))
        opened = self._opened.setdefault(host, Counter())
        for old in [number for number in opened if number <= window - self._samples]:
            del opened[old]
        elapsed_ms = samples_ms(self._samples, self._window_ms, into_ms)
        total = opened.total() + 1
        if total * 1000 > limit * elapsed_ms:
            return max(1, min(excess_ms(total, limit, elapsed_ms), self._window_ms))
        opened[window] += 1
        return 0

    def forget_quiet(self, now_ms: int) -> None:
        """Drop addresses that have opened nothing in all samples."""
        oldest = now_ms // self._window_ms - self._samples
        self._opened = {host: seen for host, seen in self._opened.items() if max(seen, default=0) > oldest}
