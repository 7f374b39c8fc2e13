"""The clock of a run: nanoseconds since the epoch, without steps.

The machine's monotonic clock plus an offset taken once when the run began; all clients on the
machine agree to the nanosecond, and a step of the wall clock (NTP, an operator) does not reach the
histories.
"""

import time
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """An id that changes with every boot and machine. Equal ids mean the same monotonic clock."""
    return BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""


class Clock:
    """`offset_ns`: epoch minus monotonic; after another boot it is measured again."""

    def __init__(self, offset_ns: int | None = None, boot: str = "") -> None:
        known = offset_ns is not None and boot == boot_id()
        self.offset_ns: int = (
            offset_ns if known and offset_ns is not None else time.time_ns() - time.monotonic_ns()
        )
        self.boot = boot_id()

    def now_ns(self) -> int:
        return time.monotonic_ns() + self.offset_ns
