"""Log lines about clients, limited in number: one misbehaving client must not fill the log."""

import logging
from collections.abc import Callable

from kbroker.ipc.rate_limit import TokenBucket

BURST = 10
PER_SECOND = 1.0


class RateLimitedLog:
    """A token bucket in front of a logger. Runs in: network, acceptor. clock: seconds,
    monotonic."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float]) -> None:
        self._logger = logger
        self._clock = clock
        self._bucket = TokenBucket(BURST, PER_SECOND, clock())
        self._left_out = 0

    def __call__(self, text: str, *values: object) -> None:
        """Log a warning, or count it as omitted."""
        if self._bucket.refill(self._clock()) < 1:
            self._left_out += 1
            return
        self._bucket.take()
        if self._left_out:
            self._logger.warning("%d lines about clients were left out", self._left_out)
            self._left_out = 0
        self._logger.warning(text, *values)


def bad_size(size: int, limit: int) -> str:
    """Explain an impossible frame size."""
    first = size & 0xFFFFFFFF
    text = f"request size {size} is not in 0..{limit}"
    if first >> 16 == 0x1603:
        return text + " (a TLS hello: this listener is not encrypted)"
    letters = first.to_bytes(4, "big")
    if letters in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN"):
        return text + f" (an HTTP request: {letters.decode().strip()})"
    return text


def not_served(api_key: int, version: int) -> str:
    """Explain why a connection is closed: the broker does not serve its request."""
    return f"API key {api_key} version {version} is not served"
