"""Waiting for what a broker will show a moment later."""

import time
from collections.abc import Callable

LIMIT_S = 120  # a busy machine is no failure


def eventually(condition: Callable[[], bool]) -> None:
    """Apache Kafka's brokers learn of a change a moment after it was confirmed. AssertionError when
    they do not."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
