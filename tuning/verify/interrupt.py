"""Signals that end a run, as an exception: whatever is open is closed and put back on the way
out."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from tuning.verify.host_change import ENDING


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP. No Exception, so that nothing takes it for a failed turn."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A block in which each of the signals ENDING raises Interrupted in the main thread."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        for each in ENDING:  # the way out is not interrupted a second time
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
