"""After the load: reads the ends of the logs, then reads all records twice, once with each
isolation level."""

import subprocess
from pathlib import Path

from loadtest.clock import Clock
from loadtest.interpreter import RUN_MODULE
from loadtest.page import Page, Slot
from loadtest.players.part import Part
from loadtest.run import Run, load_consumers, save_run
from loadtest.topics import find_committed, find_ends, wait_stable

OPEN_TRANSACTIONS_S = 60.0
ISOLATIONS = ("read_uncommitted", "read_committed")


def drain(folder: Path, run: Run, clock: Clock, seconds: float = 3600.0) -> bool:
    """Set run.ends, run.committed and run.drained, and save them; returns run.drained."""
    stable = wait_stable(run, OPEN_TRANSACTIONS_S)
    run.ends_ns = clock.now_ns()
    run.ends = find_ends(run)
    groups = {
        consumer.group: consumer.topics
        for consumer in load_consumers(folder)
        if consumer.group and consumer.role != "share"
    }
    run.committed = find_committed(run, groups)
    save_run(folder, run)
    readers = [_start(folder, run, clock, isolation) for isolation in ISOLATIONS]
    for process, _page in readers:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    run.drained = stable and all(page[Slot.LIVES] == 2 for _process, page in readers)
    save_run(folder, run)
    return run.drained


def _start(folder: Path, run: Run, clock: Clock, isolation: str) -> tuple[subprocess.Popen[bytes], Page]:
    path = folder / "pages" / f"drain-{isolation}.page"
    page = Page(path, create=True)
    part = Part.of_run(folder, run, "drain", "", isolation, path, clock, run.started_ns)
    with open(folder / "players.log", "ab") as log:
        command = [*RUN_MODULE, "loadtest.players", part.to_json()]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return process, page
