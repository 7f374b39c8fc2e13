"""One TCP congestion control for both brokers and their clients while a run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CURRENT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
USUAL = "cubic"
"""Linux's default, which most hosts use."""


class CongestionUnavailable(Exception):
    """The kernel lacks the congestion control, or this user may not choose it."""


@contextmanager
def congestion_control(requested: str, current: Path = CURRENT, available: Path = AVAILABLE) -> Iterator[str]:
    """Set the host's default for new connections; yields the one in force, and restores the old one
    at the end.

    requested: its name; empty for cubic if this user may set it, else for the host's default.
    Raises CongestionUnavailable if a named one cannot be set.
    """
    before = current.read_text().strip()
    name = requested or USUAL
    if name == before:
        yield before
        return
    try:
        if name not in available.read_text().split():
            raise CongestionUnavailable(f"this kernel has no {name}: {available.read_text().strip()}")
        current.write_text(name)
    except (PermissionError, CongestionUnavailable) as failure:
        if requested:
            raise CongestionUnavailable(f"congestion control {name} cannot be set: {failure}") from failure
        yield before
        return
    try:
        yield name
    finally:
        current.write_text(before)
