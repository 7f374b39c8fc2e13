"""Handles a stop before a command has begun: of `kbroker serve` until the supervisor takes over, of
others while their modules are imported."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def end_at_once_on_signals() -> None:
    """SIGTERM and SIGINT end this process with code 0: it has no children, log dirs or clients
    yet."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))


@contextmanager
def interrupt_ends_at_once(code: int) -> Iterator[None]:
    """Ctrl-C ends this process with the code, unless it is ignored. Nothing has begun yet, and an
    exception amid imports would be a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)
