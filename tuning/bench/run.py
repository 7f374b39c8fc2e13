"""Runs all micro-benchmarks in turn, within the seconds given."""

import datetime
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from tuning.bench.disk import measure_disk
from tuning.bench.loopback import measure_loopback
from tuning.bench.memory import clock_cost, copy_rate
from tuning.bench.operations import MAX_BYTES, measure_operations
from tuning.coefficients import Coefficients
from tuning.quantity import WrongQuantity, show_bytes

SHARE_OF_FREE = 0.1
DEFAULT_BYTES = 4 << 30
MIN_DEFAULT_BYTES = MAX_BYTES
"""Minimum of the default size: a whole file of operations, and two windows of reads ahead for each
thread."""
MIN_BYTES = 1 << 20
"""Minimum of a given size: less cannot be measured."""
Say = Callable[[str], None]


class NoRoom(ValueError):
    """The folder has too little space for the test file."""


def run(folder: Path, seconds: float, given_bytes: int | None, say: Say) -> Coefficients:
    """Measures the disk behind `folder`, loopback and memory; writes `given_bytes` at most, and
    removes it. None: what file_bytes chooses.

    Raises WrongQuantity, NoRoom, OSError.
    """
    from tuning.bench.tls import measure_tls  # the other commands need no certificates

    max_bytes = file_bytes(folder, given_bytes)
    say(f"disk behind {folder}: appends, cold reads, syncs ...")
    disk = measure_disk(folder, seconds * 0.5, max_bytes)
    guessed = Coefficients()
    reads, writes = guessed.read_iops, guessed.write_iops
    say("operations of 4 KiB ...")
    try:
        operations = measure_operations(folder, seconds * 0.2, max_bytes)
        reads, writes = operations.reads, operations.writes
    except OSError as error:
        say(f"operations of 4 KiB are guessed: {folder}: no direct I/O: {error.strerror}")
    say("loopback: sendfile from the page cache ...")
    loopback = measure_loopback(folder, seconds * 0.2)
    say("memory and TLS ...")
    return Coefficients(
        f"kbroker tune bench on {platform.node()}, {datetime.datetime.now():%Y-%m-%d %H:%M}",
        str(folder.resolve()),
        disk.write_rate,
        disk.cold_read_rate,
        disk.sync_p50_s,
        disk.sync_p99_s,
        loopback.rate,
        loopback.send_cpu,
        loopback.receive_cpu,
        copy_rate(seconds * 0.05),
        clock_cost(),
        reads,
        writes,
        measure_tls(seconds * 0.05),
    )


def file_bytes(folder: Path, given_bytes: int | None) -> int:
    """The maximum of the test file: as given, else DEFAULT_BYTES or a tenth of what is free.

    Raises WrongQuantity, NoRoom, OSError.
    """
    if given_bytes is not None and given_bytes < MIN_BYTES:
        raise WrongQuantity("--max-bytes must be at least 1MiB")
    tenth = int(shutil.disk_usage(folder).free * SHARE_OF_FREE)
    max_bytes = max(min(DEFAULT_BYTES, tenth), MIN_DEFAULT_BYTES) if given_bytes is None else given_bytes
    if max_bytes > tenth:
        raise NoRoom(
            f"{folder}: a tenth of what is free, {show_bytes(tenth)}, is less than the test file of "
            f"{show_bytes(max_bytes)}; give less by --max-bytes"
        )
    return max_bytes
