"""Runs all micro-benchmarks in turn, within the seconds given."""

import datetime
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from tuning.bench.disk import measure_disk
from tuning.bench.loopback import measure_loopback
from tuning.bench.memory import clock_cost, copy_rate
from tuning.bench.operations import measure_operations
from tuning.coefficients import Coefficients
from tuning.quantity import show_bytes

SHARE_OF_FREE = 0.1
Say = Callable[[str], None]


class NoRoom(ValueError):
    """The folder has too little space for the test file."""


def run(folder: Path, seconds: float, most_bytes: int, say: Say) -> Coefficients:
    """Measures the disk behind `folder`, loopback and memory; writes `most_bytes` at most, and
    removes it.

    Raises NoRoom, OSError.
    """
    from tuning.bench.tls import measure_tls  # the other commands need no certificates

    free = shutil.disk_usage(folder).free
    if most_bytes > free * SHARE_OF_FREE:
        raise NoRoom(
            f"{folder}: a tenth of what is free is less than {show_bytes(most_bytes)}; give less by --most-bytes"
        )
    say(f"disk behind {folder}: appends, cold reads, syncs ...")
    disk = measure_disk(folder, seconds * 0.5, most_bytes)
    guessed = Coefficients()
    reads, writes = guessed.read_iops, guessed.write_iops
    say("operations of 4 KiB ...")
    try:
        operations = measure_operations(folder, seconds * 0.2, most_bytes)
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
