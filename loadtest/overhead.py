"""What the histories cost: the same producer and the same consumer flat out, with and without them, in turn."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from loadtest.brokers import OwnBroker, check_target
from loadtest.clock import Clock
from loadtest.page import Page, Slot
from loadtest.players.part import Part
from loadtest.run import Run
from loadtest.settings import Settings
from loadtest.topics import create_topics, plan_topics

WARM_S = 2.0


def measure(seconds: float, pairs: int, target: str, record_bytes: tuple[int, int]) -> None:
    """Prints records a second and client CPU per record of each measurement, and the medians of the ratios."""
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
    ratios: dict[str, list[float]] = {"produce": [], "consume": []}
    for pair in range(pairs):
        got: dict[tuple[str, bool], float] = {}
        for history in (False, True) if pair % 2 else (True, False):
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
            number = 1 + 2 * pair + history
            run = Run(
                number, 1, bootstrap, "", time.time_ns(), settings.to_json(), plan_topics(number, settings)
            )
            create_topics(run, settings)
            for role, slot in (("produce", Slot.ACKED), ("consume", Slot.SEEN)):
                got[role, history] = _one(folder / f"{number}", run, settings, role, slot, seconds)
        for role, found in ratios.items():
            found.append(got[role, True] / got[role, False])
        print(
            f"pair {pair + 1}: "
            + ", ".join(
                f"{role} {got[role, False]:,.0f}/s without, {got[role, True]:,.0f}/s with histories"
                for role in ratios
            ),
            flush=True,
        )
    for role, found in ratios.items():
        print(
            f"{role}: histories cost {100 * (1 - statistics.median(found)):.1f} % of throughput (median of {pairs})"
        )


def _one(folder: Path, run: Run, settings: Settings, role: str, slot: Slot, seconds: float) -> float:
    """Records a second of one player, after its start."""
    folder.mkdir(exist_ok=True)
    page = Page(folder / "pages" / f"{role}.page", create=True)
    clock = Clock()
    topics = {topic.mode: topic.name for topic in run.topics}
    part = Part(
        role, "idempotent", str(folder), str(folder / "pages" / f"{role}.page"), run.run, run.bootstrap, topics,
        settings.to_json(), 0, clock.now_ns(), clock.offset_ns, clock.boot, role,
    )  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "loadtest.players", part.to_json()])
    try:
        until = time.monotonic() + 30
        while not page[slot] and time.monotonic() < until:
            time.sleep(0.01)
        if role == "produce":
            time.sleep(WARM_S)
        first, began = page[slot], time.monotonic()
        time.sleep(seconds if role == "produce" else seconds / 2)
        return (page[slot] - first) / (time.monotonic() - began)
    finally:
        page[Slot.STOP] = 1
        process.wait(60)
