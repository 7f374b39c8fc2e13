"""Kafka's two kinds of rate limit, for clients of every process: a token bucket, and a rate over
samples. Pure."""

from typing import Final

MAX_MS: Final = (1 << 31) - 1
"""The longest throttle time that an answer can carry. A quota may be as small as 5e-324."""


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
