"""Measures the cost of histories: two producers, then two consumers, take turns at full speed; one
of each pair writes histories.

Both run during the whole measurement; the one without a turn is stopped (SIGSTOP). So there are
many short turns, and other work of the machine affects both equally. Two figures each: throughput,
and the CPU time per record of the client (all its threads).
"""

import os
import signal
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from loadtest.brokers import OwnBroker, reached
from loadtest.clock import Clock
from loadtest.interpreter import RUN_MODULE
from loadtest.page import Page, Slot
from loadtest.players.part import Part
from loadtest.run import Run
from loadtest.settings import Settings
from loadtest.topics import create_topics, plan_topics

WARM_S = {"produce": 2.0, "consume": 1.0}
ROLES = {"produce": Slot.ACKED, "consume": Slot.SEEN}
WAKE_S = 0.2  # after SIGCONT and before counting: bytes that waited in the sockets
START_S = 30.0


@dataclass(slots=True, frozen=True)
class Speed:
    """Records a second, and nanoseconds of client CPU per record."""

    per_s: float
    cpu_ns: float

    def __str__(self) -> str:
        return f"{self.per_s:,.0f}/s {self.cpu_ns / 1000:.2f} µs"


def measure(
    seconds: float, pairs: int, target: str | None, record_bytes: tuple[int, int], file: Path | None = None
) -> None:
    """Prints the medians of the ratios within a pair of turns. file: of settings to connect to the
    target."""
    with tempfile.TemporaryDirectory(prefix="loadtest-") as name:
        folder = Path(name)
        broker: OwnBroker | None = None
        try:
            if target is None:
                broker = OwnBroker(folder / "broker", "kbroker", 0, [])
                broker.start()
                bootstrap = broker.bootstrap
            else:
                bootstrap = reached(target, file)
            runs = {kept: _run(bootstrap, kept, record_bytes) for kept in (False, True)}
            for role in ROLES:
                # a consumer must not catch up with what was produced before
                turn = seconds if role == "produce" else seconds / 5
                _report(role, _pairs(folder, runs, role, turn, pairs))
        finally:
            if broker is not None:
                broker.stop()


def _run(bootstrap: str, history: bool, record_bytes: tuple[int, int]) -> Run:
    """A run of one idempotent producer, with its topic; topics of an earlier measurement may still
    be there."""
    number = (time.time_ns() // 1_000_000 & 0x7FFF_FFFE) + history
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
    run = Run(number, 1, bootstrap, "", time.time_ns(), settings.to_json(), plan_topics(number, settings))
    create_topics(run, settings)
    return run


def _pairs(
    folder: Path, runs: dict[bool, Run], role: str, seconds: float, pairs: int
) -> list[tuple[Speed, Speed]]:
    """(without, with histories) of each pair of turns; who begins changes."""
    players = {kept: Flat(folder / str(run.run), run, role) for kept, run in runs.items()}
    try:
        for player in players.values():
            player.warm_up()
        found = []
        for pair in range(pairs):
            speeds = {
                kept: players[kept].turn(seconds) for kept in ((False, True) if pair % 2 else (True, False))
            }
            found.append((speeds[False], speeds[True]))
        return found
    finally:
        for player in players.values():
            player.end()


def _report(role: str, pairs: list[tuple[Speed, Speed]]) -> None:
    rates = [100 * (kept.per_s / plain.per_s - 1) for plain, kept in pairs]
    cpus = [100 * (kept.cpu_ns / plain.cpu_ns - 1) for plain, kept in pairs]
    plain = Speed(
        *(statistics.median(values) for values in zip(*((p.per_s, p.cpu_ns) for p, _ in pairs), strict=True))
    )
    print(
        f"{role}: {plain} without; histories change throughput by {_spread(rates)}, "
        f"the client's CPU per record by {_spread(cpus)} ({len(pairs)} pairs)",
        flush=True,
    )


def _spread(changes: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(changes, n=4) if len(changes) > 1 else changes * 3
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


class Flat:
    """A player at full speed, stopped outside of its turns. Owner: `_pairs`, which ends it."""

    def __init__(self, folder: Path, run: Run, role: str) -> None:
        self._slot = ROLES[role]
        self._warm_s = WARM_S[role]
        path = folder / "pages" / f"{role}.page"
        self._page = Page(path, create=True)
        clock = Clock()
        part = Part.of_run(folder, run, role, "idempotent", role, path, clock, clock.now_ns())
        self._process = subprocess.Popen(
            [*RUN_MODULE, "loadtest.players", part.to_json()], start_new_session=True
        )

    def warm_up(self) -> None:
        until = time.monotonic() + START_S
        while not self._page[self._slot] and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(self._warm_s)
        self._signal(signal.SIGSTOP)

    def turn(self, seconds: float) -> Speed:
        self._signal(signal.SIGCONT)
        time.sleep(WAKE_S)
        first, first_cpu, began = self._page[self._slot], self._page[Slot.CPU_NS], time.monotonic()
        time.sleep(seconds)
        records, taken = self._page[self._slot] - first, time.monotonic() - began
        cpu = self._page[Slot.CPU_NS] - first_cpu
        self._signal(signal.SIGSTOP)
        return Speed(max(records, 1) / taken, max(cpu, 1) / max(records, 1))

    def end(self) -> None:
        self._page[Slot.STOP] = 1
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        """Send a signal to the player and its history process."""
        os.killpg(self._process.pid, number)
