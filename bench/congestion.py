"""One TCP congestion control for both brokers and their clients while a run lasts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CURRENT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
USUAL = "cubic"
"""Linux's default, and so what most hosts have."""


class CongestionUnavailable(Exception):
    """The kernel lacks the wanted congestion control, or this user may not choose it."""


@contextmanager
def congestion_control(wanted: str, current: Path = CURRENT, available: Path = AVAILABLE) -> Iterator[str]:
    """Sets the host's default for new connections; gives the one in force, and puts the old one
    back at the end.

    wanted: its name; empty for cubic where this user may set it, else for the host's own.
    Raises CongestionUnavailable when a named one cannot be had.
    """
    before = current.read_text().strip()
    name = wanted or USUAL
    if name == before:
        yield before
        return
    try:
        if name not in available.read_text().split():
            raise CongestionUnavailable(f"this kernel has no {name}: {available.read_text().strip()}")
        current.write_text(name)
    except (PermissionError, CongestionUnavailable) as failure:
        if wanted:
            raise CongestionUnavailable(f"congestion control {name} cannot be set: {failure}") from failure
        yield before
        return
    try:
        yield name
    finally:
        current.write_text(before)
