"""Counters of the disks that hold the log dirs."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

DEVICES = Path("/sys/dev/block")


def disks_of(log_dirs: Iterable[str], devices: Path = DEVICES) -> dict[str, Any]:
    """psutil's `sdiskio` by name of the device: bytes, operations and milliseconds since the host
    started. Log dirs that are gone are left out, and so is anything but a block device, such as a
    tmpfs."""
    numbers = {Path(path).stat().st_dev for path in log_dirs if Path(path).exists()}
    names = set()
    for number in numbers:
        with suppress(OSError):
            link = devices / f"{os.major(number)}:{os.minor(number)}"
            names.add(link.readlink().name.replace("!", "/"))  # sysfs has no slash in a name
    counted = psutil.disk_io_counters(perdisk=True, nowrap=False) if names else {}
    return {name: counted[name] for name in sorted(names & counted.keys())}
