"""`python -m bench.loop_pauses [LOGS ...]`: how long the loop of an IO worker waits for the
interpreter while a thread writes the checkpoint of all logs, with Python's switch interval and with
kbroker's."""

import itertools
import select
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.scheduling import SWITCH_S
from tests.io.append.plain_append import Log

LOGS = (1_000, 10_000)
ROUNDS = 7
SLEEP_S = 0.0003
"""Sleep of the loop between two turns, as between two appends."""
PYTHONS_SWITCH_S = 0.005


def pauses_ms(logs: Sequence[UnifiedLog], log_dir: LogDir) -> list[float]:
    """The longest turn of the loop that began one checkpoint, and by how much each sleep of the
    loop took too long meanwhile."""
    checkpoints = OffsetCheckpoints({log_dir.path: log_dir}, _failed)
    for log in logs:
        log.published.publish(durable=log.recovery_point + 1)
    poll = select.epoll()
    began = time.perf_counter()
    checkpoints.begin(logs)
    turns = [time.perf_counter() - began]
    while checkpoints.collecting:
        began = time.perf_counter()
        checkpoints.collect()
        turns.append(time.perf_counter() - began)
    pauses = [max(turns) * 1000]
    while not checkpoints.take():
        began = time.perf_counter()
        poll.poll(SLEEP_S)
        pauses.append((time.perf_counter() - began - SLEEP_S) * 1000)
    checkpoints.close()
    return pauses


def _failed(log_dir: str, error: OSError) -> None:
    raise AssertionError(f"{log_dir}: {error}")


def opened(root: Path, count: int) -> list[UnifiedLog]:
    """Logs whose recovery points and log starts are all in the checkpoints."""
    logs = []
    for n in range(count):
        log = Log(root, slot=n, topic=f"topic-{n:05}")
        log.open()
        log.partition.published.log_start = n + 1
        logs.append(log.partition)
    return logs


def main(counts: Sequence[int]) -> None:
    """Measure in turns, and print the quantiles over all rounds."""
    for count in counts:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            log_dir, logs = LogDir(folder), opened(Path(folder), count)
            found: dict[float, list[float]] = {PYTHONS_SWITCH_S: [], SWITCH_S: []}
            longest: dict[float, list[float]] = {interval: [] for interval in found}
            begins = []
            for _, interval in itertools.product(range(ROUNDS), found):
                sys.setswitchinterval(interval)
                one = pauses_ms(logs, log_dir)
                begins.append(one[0])
                found[interval] += one[1:]
                longest[interval].append(max(one[1:]))
            print(f"{count:6} logs: begun in turns of up to {np.median(begins):.2f} ms")
            for interval, pauses in found.items():
                median, p99 = np.percentile(pauses, (50, 99))
                print(
                    f"{count:6} logs, switch interval {interval * 1000:.1f} ms: pauses p50 {median:.2f} ms, "
                    f"p99 {p99:.2f} ms, longest of a checkpoint {np.median(longest[interval]):.2f} ms "
                    f"(median of {ROUNDS}; {max(longest[interval]):.2f} ms at most)"
                )


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or LOGS)
