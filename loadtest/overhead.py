"""What the histories cost: the same producer and the same consumer flat out, with and without them, in turn.

Two figures each: throughput, and the CPU time per record of the client (all its threads), less disturbed by others.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from loadtest.brokers import OwnBroker, check_target
from loadtest.clock import Clock
from loadtest.page import Page, Slot
from loadtest.players.part import Part
from loadtest.run import Run
from loadtest.settings import Settings
from loadtest.topics import create_topics, plan_topics

WARM_S = {"produce": 2.0, "consume": 1.0}
ROLES = {"produce": Slot.ACKED, "consume": Slot.SEEN}


@dataclass(slots=True, frozen=True)
class Speed:
    """Records a second, and nanoseconds of client CPU per record."""

    per_s: float
    cpu_ns: float

    def __str__(self) -> str:
        return f"{self.per_s:,.0f}/s {self.cpu_ns / 1000:.2f} µs"


def measure(seconds: float, pairs: int, target: str, record_bytes: tuple[int, int]) -> None:
    """Prints each measurement and the medians of the ratios."""
    with tempfile.TemporaryDirectory(prefix="loadtest-") as name:
        folder = Path(name)
        broker = None if target else OwnBroker(folder / "broker", "kbroker", 0, [])
        if broker is not None:
            broker.start()
        try:
            bootstrap = broker.bootstrap if broker is not None else check_target(target)
            _pairs(folder, bootstrap, seconds, pairs, record_bytes)
        finally:
            if broker is not None:
                broker.stop()


def _pairs(folder: Path, bootstrap: str, seconds: float, pairs: int, record_bytes: tuple[int, int]) -> None:
    found: dict[tuple[str, bool], list[Speed]] = {
        (role, kept): [] for role in ROLES for kept in (False, True)
    }
    base = time.time_ns() // 1_000_000 & 0x7FFF_FFFF  # topics of an earlier measurement may still be there
    for pair in range(pairs):
        for history in (False, True) if pair % 2 else (True, False):
            number = base + 2 * pair + history
            settings = Settings(
                rate=0,
                idempotent=1,
                plain=0,
                transactional=0,
                copiers=0,
                record_bytes=record_bytes,
                history=history,
                segment_bytes=256 << 20,
            )
            run = Run(
                number, 1, bootstrap, "", time.time_ns(), settings.to_json(), plan_topics(number, settings)
            )
            create_topics(run, settings)
            for role in ROLES:
                found[role, history].append(_one(folder / f"{number}", run, role, seconds))
        for role in ROLES:
            print(
                f"pair {pair + 1}: {role} {found[role, False][-1]} without, {found[role, True][-1]} with",
                flush=True,
            )
    for role in ROLES:
        both = list(zip(found[role, False], found[role, True], strict=True))
        rate = statistics.median(kept.per_s / plain.per_s for plain, kept in both)
        cpu = statistics.median(kept.cpu_ns / plain.cpu_ns for plain, kept in both)
        print(
            f"{role}: histories change throughput by {100 * (rate - 1):+.1f} %, the client's CPU per record by "
            f"{100 * (cpu - 1):+.1f} % (medians of {pairs} pairs)"
        )


def _one(folder: Path, run: Run, role: str, seconds: float) -> Speed:
    """One player flat out, measured after its start."""
    slot = ROLES[role]
    path = folder / "pages" / f"{role}.page"
    page = Page(path, create=True)
    clock = Clock()
    part = Part.of_run(folder, run, role, "idempotent", role, path, clock, clock.now_ns())
    process = subprocess.Popen([sys.executable, "-m", "loadtest.players", part.to_json()])
    try:
        until = time.monotonic() + 30
        while not page[slot] and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(WARM_S[role])
        first, first_cpu, began = page[slot], page[Slot.CPU_NS], time.monotonic()
        time.sleep(seconds if role == "produce" else seconds / 3)
        records = page[slot] - first
        return Speed(records / (time.monotonic() - began), (page[Slot.CPU_NS] - first_cpu) / max(records, 1))
    finally:
        page[Slot.STOP] = 1
        process.wait(60)
