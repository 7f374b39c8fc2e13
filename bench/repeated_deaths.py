"""Start after start of a broker that dies again and again:
`python -m bench.repeated_deaths --gb 10`.

A topic is filled, then all processes are killed (kill -9) and the broker is started, several times.
For each start: the seconds until every partition answers, and the MB of logs that were checked.
With `--partitions 10000` the partitions are those of ten topics.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.generator import CACHE, LoadFailed
from bench.machine import describe
from bench.measure import cpu_seconds
from bench.run import make_generator, running, work_folder
from bench.scenarios.recovery import kill
from bench.size import FULL
from bench.targets import KbrokerTarget, Target, TargetFailed
from bench.turn import Turn

CHECKED = re.compile(r"(\d+) of \1 logs loaded, (\d+) MB checked")
OF_A_TOPIC = 1000
MAX_WRITERS = 50
READY_S = 600
LOGGED_S = 5
"""A worker logs its line after its logs answer, on a busy host some time later; none if it had
nothing to check."""
RECORDS = 100
"""Records of a batch, of 1 KiB each."""


@dataclass(frozen=True)
class Start:
    """One start after a death. mb: of logs that were checked."""

    seconds: float
    mb: int
    cpu_s: float


def checked(text: str) -> tuple[int, int]:
    """Logs that a start's lines report as loaded, and MB as checked. A worker that opens logs in
    several groups has a line for each."""
    found = [(int(logs), int(mb)) for logs, mb in CHECKED.findall(text)]
    return sum(logs for logs, _ in found), sum(mb for _, mb in found)


def writers(partitions: int) -> int:
    """Connections that fill so many partitions, each the same number."""
    return next(count for count in range(min(MAX_WRITERS, partitions), 0, -1) if partitions % count == 0)


def fill(turn: Turn, partitions: int, size: int) -> list[tuple[str, int]]:
    """Topics with so many bytes in all; their names and numbers of partitions."""
    made = []
    counts = [min(OF_A_TOPIC, partitions - first) for first in range(0, partitions, OF_A_TOPIC)]
    for number, count in enumerate(counts):
        name = turn.topic(f"deaths-{number}", count)
        turn.target.wait_ready(name, count, READY_S)
        connections = writers(count)
        turn.load(
            "produce",
            topic=name,
            connections=connections,
            records=RECORDS,
            value_bytes=1024,
            partitions_per_request=count // connections,
            warm=0,
            seconds=READY_S,
            max_bytes=size * count // partitions,
        )
        made.append((name, count))
    return made


def die_and_start(broker: Target, topics: Sequence[tuple[str, int]]) -> Start:
    """Kill the broker, start it, and wait until every partition answers."""
    kill(broker)
    log = broker.folder / "broker.log"
    seen = len(log.read_text())
    broker.launch()
    seconds = max(broker.wait_ready(name, count, READY_S) for name, count in topics)
    cpu = cpu_seconds(broker.pid)
    partitions, give_up = sum(count for _, count in topics), time.monotonic() + LOGGED_S
    loaded, mb = checked(log.read_text()[seen:])
    while loaded < partitions and time.monotonic() < give_up:
        time.sleep(0.05)
        loaded, mb = checked(log.read_text()[seen:])
    return Start(seconds, mb, cpu)


def row(number: int, start: Start) -> str:
    return f"| {number} | {start.seconds:.2f} s | {start.mb:,} MB | {start.cpu_s:.2f} s |"


def measure(folder: Path, size: int, partitions: int, deaths: int) -> list[Start]:
    generator = make_generator()
    with work_folder(folder) as place:
        target = KbrokerTarget(place / "kbroker", generator)
        target.folder.mkdir()
        with running(target):
            turn = Turn(target, generator, FULL, 1, set())
            topics = fill(turn, partitions, size)
            return [die_and_start(target, topics) for _ in range(deaths)]


def main(arguments: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(prog="python -m bench.repeated_deaths", description=__doc__)
    made.add_argument("--gb", type=float, default=10.0, help="GB that the logs hold (10)")
    made.add_argument("--partitions", type=int, default=10, help="logs that hold them (10)")
    made.add_argument("--deaths", type=int, default=5, help="kills, each with a start (5)")
    made.add_argument("--folder", type=Path, default=CACHE / "deaths", help="folder for the broker's data")
    options = made.parse_args(arguments)
    machine = describe(options.folder)
    print(", ".join(f"{key}: {value}" for key, value in machine.items()))
    print("load averages:", *(f"{load:.1f}" for load in os.getloadavg()))
    try:
        starts = measure(options.folder.resolve(), int(options.gb * 1e9), options.partitions, options.deaths)
    except (LoadFailed, TargetFailed) as failure:
        print(f"repeated_deaths: {failure}", file=sys.stderr)
        return 1
    print("\n| kill -9 | every partition answers | checked | CPU until then |\n|---|---|---|---|")
    print("\n".join(row(number, start) for number, start in enumerate(starts, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
