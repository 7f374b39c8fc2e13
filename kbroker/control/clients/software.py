"""Connections by client software, over all network processes: a bounded number. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from kbroker.ipc.client_messages import OTHER, SoftwareConnections

MAX_SHOWN: Final = 20


def added_up(
    reports: Collection[Iterable[SoftwareConnections]], most: int = MAX_SHOWN
) -> tuple[SoftwareConnections, ...]:
    """Connections by name, version and listener. Names with a version beyond the `most` that have
    the most connections are OTHER."""
    total: Counter[tuple[str, str]] = Counter()
    for one in (each for report in reports for each in report):
        total[one.name, one.version] += one.connections
    total.pop((OTHER, OTHER), None)
    shown = {software for software, _ in total.most_common(most)}
    found: Counter[tuple[str, str, str]] = Counter()
    for one in (each for report in reports for each in report):
        software = (one.name, one.version) if (one.name, one.version) in shown else (OTHER, OTHER)
        found[*software, one.listener] += one.connections
    return tuple(SoftwareConnections(*key, count) for key, count in sorted(found.items()))
