"""`python -m spark_validation.scale 10000000 30000000 --folder DIR`: makes runs, judges them,
prints the cost. With `--workers N` a standalone cluster of Spark on loopback judges them, a master
and N workers of one core.

A run of N records is N sends, N log records (segment files) and 2 N reads. It takes about 160 bytes
of disk a record, and scratch files of Spark; each run is removed after its judgement.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Self

from spark_validation.cost import cost
from spark_validation.options import CLEAN
from spark_validation.scale.cluster import SparkCluster
from spark_validation.scale.make import make

COST = re.compile(r"^\d+ s, (\d+) s user \+ (\d+) s system CPU, at most ([\d.]+) GiB resident", re.MULTILINE)
WORKER_MB = 3072
SUBMITTED_WITHIN_S = 4 * 3600
SAMPLE_S = 5
"""The memory of a cluster's processes is read as often: they are gone when it ends."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Cost of a judgement: wall and CPU seconds, GiB of resident memory, tasks by worker."""

    wall: float
    cpu: float
    peak: float
    tasks: str = ""


def judged(folder: Path) -> Judged:
    """A judgement in a process of its own. Raises RuntimeError unless clean."""
    command = [sys.executable, "-P", "-m", "spark_validation", *_words(folder)]
    began = time.monotonic()
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(folder / "scratch")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    taken = time.monotonic() - began
    found = COST.search(done.stdout)
    if done.returncode != CLEAN or found is None:
        raise RuntimeError(f"the judge ended with {done.returncode}:\n{done.stdout}")
    return Judged(taken, float(found[1]) + float(found[2]), float(found[3]))


def judged_on_cluster(folder: Path, workers: int) -> Judged:
    """A judgement by spark-submit to a cluster, whose daemons and start count, too. Raises
    RuntimeError unless clean."""
    before, began = cost(os.getpid()), time.monotonic()
    with (
        _Peak() as peak,
        SparkCluster(folder / "cluster", workers, WORKER_MB, quick=False) as cluster,
    ):
        done = cluster.submit(
            *_words(folder), "--landing", str(folder / "landing"), timeout_s=SUBMITTED_WITHIN_S
        )
        if done.returncode != CLEAN:
            raise RuntimeError(f"the judge ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        tasks = " ".join(f"{name}: {count}" for name, count in sorted(cluster.tasks().items()))
    after = cost(os.getpid())
    cpu = after.user + after.system - before.user - before.system
    return Judged(time.monotonic() - began, cpu, peak.bytes / 2**30, tasks)


def _words(folder: Path) -> list[str]:
    words = ["judge", "--history", str(folder / "run"), "--segments", str(folder / "data")]
    return [*words, "--report", str(folder / "verdict.html")]


class _Peak:
    """The most resident memory of this process's descendants, in bytes: the highest of each of
    those that live at the same time."""

    def __init__(self) -> None:
        self.bytes = 0
        self._ended = Event()
        self._thread = Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self.bytes = max(self.bytes, cost(os.getpid()).peak)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=0, help="of a cluster (none: without a cluster)")
    parser.add_argument("--keep", action="store_true", help="do not remove the runs")
    chosen = parser.parse_args()
    print("| records | wall s | CPU s | CPU µs a record | GiB resident |\n|---|---|---|---|---|", flush=True)
    for records in chosen.records:
        folder = (chosen.folder / f"{records}").resolve()
        make(folder, records)
        found = judged_on_cluster(folder, chosen.workers) if chosen.workers else judged(folder)
        print(
            f"| {records:,} | {found.wall:.0f} | {found.cpu:.0f} | {found.cpu / records * 1e6:.1f} "
            f"| {found.peak:.1f} |",
            flush=True,
        )
        if found.tasks:
            print(f"tasks that ended well: {found.tasks}", flush=True)
        if not chosen.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
