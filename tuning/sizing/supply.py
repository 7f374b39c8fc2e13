"""The host's supply of each resource."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tuning.situation import Situation

FILLED = 0.8  # share of a disk that may be used
STEADY = 0.7  # share of a rate that stays smooth


@dataclass(frozen=True, slots=True)
class Supply:
    """Bytes, bytes/s, cores. disks: how many share the work. held_bytes: of disk_bytes, what logs
    hold already. None: cannot be seen and was not given."""

    disk_bytes: float | None = None
    write_rate: float = math.inf
    cold_read_rate: float = math.inf
    memory_bytes: float | None = None
    network_rate: float | None = None
    cores: float = 1.0
    files: int | None = None
    disks: int = 1
    held_bytes: float = 0.0


def supply_of(
    situation: Situation,
    disk_bytes: float | None = None,
    memory_bytes: float | None = None,
    network_rate: float | None = None,
    cores: float | None = None,
) -> Supply:
    """This host's, each part replaced by what is given: for a host that is yet to be bought.

    Of the disks counts what is free and what the logs of a running broker hold.
    """
    host, speeds = situation.host, situation.coefficients
    disks = len(host.mounts)
    if host.disks:  # file systems on one disk share its speed
        disks = min(disks, len(host.disks))
    disks = max(1, disks)
    return Supply(
        _first((disk_bytes, situation.room_bytes)),
        speeds.write_rate * disks,
        speeds.cold_read_rate * disks,
        _first((memory_bytes, host.memory.usable_bytes)),
        _first((network_rate, host.network.speed)),
        cores or host.processors.usable_cores,
        host.files_limit if host.files_limit is None or host.files_limit >= 0 else None,
        disks,
        situation.held_bytes if disk_bytes is None else 0.0,
    )


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)
