"""Limits of a rate, for clients of every process: Kafka's token bucket and rate over samples, and
the lines that the events of one second get in a log. Pure."""

from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

MAX_MS: Final = (1 << 31) - 1
"""The longest throttle time that an answer can carry. A quota may be as small as 5e-324."""
Line = TypeVar("Line", bound=Hashable)


class TokenBucket:
    """A bucket of tokens that refills at a steady rate. Below zero, tokens are taken in advance.
    capacity: its maximum and initial number of tokens. Times are seconds of one monotonic clock.
    """

    __slots__ = ("_at_s", "capacity", "per_second", "tokens")

    def __init__(self, capacity: float, per_second: float, now_s: float) -> None:
        self.capacity = capacity
        self.per_second = per_second
        self.tokens = capacity
        self._at_s = now_s

    def refill(self, now_s: float) -> float:
        """Add the tokens of the elapsed time; returns the number of tokens."""
        self.add((now_s - self._at_s) * self.per_second)
        self._at_s = now_s
        return self.tokens

    def add(self, count: float) -> None:
        """Return tokens."""
        self.tokens = min(self.capacity, self.tokens + count)

    def take(self, count: float = 1.0) -> None:
        """Take tokens, even below zero."""
        self.tokens -= count

    def wait_s(self, count: float = 1.0) -> float:
        """Seconds until the bucket has this number of tokens."""
        return max(0.0, (count - self.tokens) / self.per_second)

    def wait_ms(self) -> int:
        """Milliseconds until nothing is taken in advance, MAX_MS at most."""
        return round(min(self.wait_s(0) * 1000, MAX_MS))


def samples_ms(samples: int, window_ms: int, into_ms: int) -> int:
    """The time that samples cover, of which the last has begun into_ms ago."""
    return max(1, (samples - 1) * window_ms + into_ms)


def excess_ms(total: float, limit: float, elapsed_ms: int) -> int:
    """The time until a rate is the limit again: for a rate O over W ms and a limit T, W
    (O - T) / T."""
    rate = total * 1000 / elapsed_ms
    return round(min((rate - limit) / limit * elapsed_ms, MAX_MS)) if rate > limit else 0


class LineLimits(Generic[Line]):
    """The lines of a second. counts: events of this second by their line, in the order of the first
    ones.

    A client's events beyond max_of_client share a line, those of all clients beyond max_of_all
    another one: no event is left out."""

    def __init__(self, max_of_client: int, max_of_all: int) -> None:
        self.counts: Counter[Line] = Counter()
        self._max_of_client = max_of_client
        self._max_of_all = max_of_all
        self._of_client: Counter[Hashable] = Counter()
        self._of_all = 0

    def begins(self, client: Hashable) -> bool:
        """Count an event that shares no line. Whether the limits leave it a line of its own."""
        if self._of_client[client] >= self._max_of_client or self._of_all >= self._max_of_all:
            return False
        self._begin(client)
        return True

    def add(
        self, line: Line, client: Hashable, rest_of_client: Line, rest_of_all: Line, times: int = 1
    ) -> Line:
        """Count an event; returns the line that it shares: its own or, beyond the limits, a
        rest."""
        if line not in self.counts and self._of_client[client] >= self._max_of_client:
            line = rest_of_client
        if line not in self.counts and self._of_all >= self._max_of_all:
            line = rest_of_all
        if line not in self.counts:
            self._begin(client)
        self.counts[line] += times
        return line

    def _begin(self, client: Hashable) -> None:
        self._of_client[client] += 1
        self._of_all += 1

    def take(self) -> Counter[Line]:
        """The counts of the second that ends."""
        counts, self.counts = self.counts, Counter()
        self._of_client.clear()
        self._of_all = 0
        return counts
