"""Injects the faults of a plan during the load, and records the outcomes."""

import json
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from loadtest.brokers import OwnBroker
from loadtest.clock import Clock
from loadtest.faults.cache import drop
from loadtest.faults.schedule import LATE_ROLES, Fault
from loadtest.faults.topic_settings import change_for
from loadtest.page import Page, Slot


class Skipped(Exception):
    """The fault cannot be injected here; the text has the reason. It is recorded as skipped."""


class Injector:
    """Owner: the conductor. A thread injects the faults, one after the other."""

    def __init__(
        self,
        folder: Path,
        broker: OwnBroker | None,
        plan: list[Fault],
        begin_ns: int,
        clock: Clock,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._broker = broker
        self._plan = plan
        self._begin_ns = begin_ns
        self._clock = clock
        self._dice = random.Random(f"targets {seed}")
        self._say = say
        self._stop = threading.Event()
        self._file = open(folder / "faults.jsonl", "a", buffering=1)  # noqa: SIM115
        self.counts = {"done": 0, "skipped": 0, "failed": 0}
        self.rows = 0  # of faults.jsonl
        self.deaths: list[str] = []
        self._thread = threading.Thread(target=self._run, name="faults")

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """End the current fault and start no other."""
        self._stop.set()
        self._thread.join()
        self._file.close()

    def _run(self) -> None:
        for fault in self._plan:
            due_ns = self._begin_ns + int(fault.at_s * 1e9)
            while not self._stop.is_set() and (left := (due_ns - self._clock.now_ns()) / 1e9) > 0:
                self._stop.wait(min(left, 0.5))
                self._watch()
            if self._stop.is_set():
                return
            self._do(fault)

    def _do(self, fault: Fault) -> None:
        begin_ns = self._clock.now_ns()
        which = self._dice.random()
        try:
            detail, outcome = self._inject(fault, which), "done"
        except Skipped as reason:
            detail, outcome = str(reason), "skipped"
        except (LookupError, OSError, RuntimeError, AssertionError, psutil.Error) as failure:
            detail, outcome = f"{type(failure).__name__}: {failure}"[:500], "failed"
        self.counts[outcome] += 1
        self._write(fault.kind, fault.target, begin_ns, outcome, detail, fault)
        self._say(f"fault {fault}: {outcome}: {detail}")
        self._watch()

    def _write(
        self, kind: str, target: str, begin_ns: int, outcome: str, detail: str, fault: Fault | None = None
    ) -> None:
        row = {
            "fault": kind,
            "target": target,
            "begin_ns": begin_ns,
            "end_ns": self._clock.now_ns(),
            "outcome": outcome,
            "detail": detail,
            "planned": fault.to_json() if fault else None,
        }
        self._file.write(json.dumps(row) + "\n")
        self.rows += 1

    def _watch(self) -> None:
        """If the broker has ended by itself, record it and start the broker again, with retries at
        the next checks."""
        broker = self._broker
        if broker is None or broker.alive():
            return
        begin_ns = self._clock.now_ns()
        self.deaths.append(f"{broker.kind} ended by itself")
        try:
            broker.revive()
            outcome, detail = "done", "ended by itself, was started again"
        except (RuntimeError, OSError) as failure:
            outcome, detail = "failed", f"ended by itself, did not start again: {failure}"[:500]
        self._write("death", broker.kind, begin_ns, outcome, detail)
        self._say(f"{broker.kind} {detail}")

    def _inject(self, fault: Fault, which: float) -> str:
        if fault.kind == "reset":
            return self._reset()
        broker = self._broker
        if broker is None:
            raise Skipped("needs access to the broker's host")
        if fault.kind in broker.missing:
            raise Skipped(broker.missing[fault.kind])
        if fault.target in LATE_ROLES and not broker.processes(fault.target):
            raise Skipped(f"no {fault.target} process has been needed yet")
        if fault.kind == "kill":
            return broker.kill(fault.target, which)
        if fault.kind == "restart":
            return broker.restart()
        if fault.kind == "settings":
            return change_for(broker.bootstrap, which, fault.seconds)
        if fault.kind == "cold":
            return f"{drop([broker.data_dir]) >> 20} MiB of segments dropped"
        if fault.kind == "pause":
            return self._pause(broker, fault, which)
        if fault.kind == "fill":
            return self._fill(broker, fault)
        assert broker.preload is not None
        before = broker.preload.delayed_calls
        change = broker.preload.slow_disk if fault.kind == "slow" else broker.preload.shift_clock
        change(fault.size)
        try:
            time.sleep(fault.seconds)
        finally:
            change(0.0)
        if fault.kind == "slow":
            return f"{broker.preload.delayed_calls - before} calls delayed"
        return "and back again"

    def _pause(self, broker: OwnBroker, fault: Fault, which: float) -> str:
        found = broker.processes(fault.target)
        if not found:
            raise LookupError(f"no process {fault.target!r}")
        victim = found[int(which * len(found))]
        victim.send_signal(signal.SIGSTOP)
        try:
            time.sleep(fault.seconds)
        finally:
            victim.send_signal(signal.SIGCONT)
        return f"pid {victim.pid} stopped and continued"

    def _fill(self, broker: OwnBroker, fault: Fault) -> str:
        assert broker.disk is not None
        taken = broker.disk.fill()
        try:
            time.sleep(fault.seconds)
        finally:
            broker.disk.free()
        return f"{taken >> 20} MiB taken and given back"

    def _reset(self) -> str:
        """Make every player reset its connections with an RST."""
        count = 0
        for path in (self._folder / "pages").glob("*.page"):
            page = Page(path)
            if not page[Slot.DONE]:
                page.add(Slot.RESETS, 1)
                count += 1
        return "1 client reset its connections" if count == 1 else f"{count} clients reset their connections"
