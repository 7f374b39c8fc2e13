"""Bounds of one input: processor time, memory, and errors in the log."""

import logging
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_BYTES = 192 << 20
"""That one input may add to the largest memory of the process so far."""
ADDRESS_BYTES = 6 << 30


class TooSlow(BaseException):
    """Not an Exception: the code must not take it for one of its own."""


class ErrorLog(logging.Handler):
    """Keeps errors that were logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def bound_address_space() -> None:
    """An input that asks for more memory gets a MemoryError, and leaves the machine to others."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_BYTES, hard))


@contextmanager
def error_log(silent: bool) -> Iterator[ErrorLog]:
    """What code of kbroker logs goes here and nowhere else."""
    log, errors = logging.getLogger("kbroker"), ErrorLog()
    before = log.propagate, log.level
    log.propagate = False
    log.setLevel(logging.ERROR if silent else logging.CRITICAL)
    log.addHandler(errors)
    try:
        yield errors
    finally:
        log.removeHandler(errors)
        log.propagate, log.level = before


def bounded(run: Callable[[bytes], None], data: bytes, cpu_s: float, errors: ErrorLog) -> None:
    """Give an input to a target. Raises what it raises, TooSlow, or AssertionError."""

    def late(*_: object) -> None:
        raise TooSlow(f"more than {cpu_s} s of processor time")

    errors.lines.clear()
    peak = peak_bytes()
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        run(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert not errors.lines, f"in the log: {errors.lines[0]}"
    grown = peak_bytes() - peak
    assert grown < MEMORY_BYTES, f"{grown >> 20} MiB of memory for an input of {len(data)} bytes"
