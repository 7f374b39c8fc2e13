"""One run from its folder to its figures: topics, Locust, faults, drain. The caller provides the
broker."""

import json
import os
import random
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from loadtest import locust_parameters
from loadtest.brokers import OwnBroker
from loadtest.clock import Clock
from loadtest.drain import drain
from loadtest.faults.injector import Injector
from loadtest.faults.schedule import Fault
from loadtest.figures import BUSY, Figures, Pages, interval
from loadtest.interpreter import RUN_MODULE
from loadtest.page import Page, Slot
from loadtest.run import Run, load_producers, save_run, write_json
from loadtest.settings import Settings
from loadtest.topics import create_topics, plan_topics

START_S = 3.0  # time until all players have joined and the schedule begins
TICK_S = 5.0
STOP_S = 180
ROOT = Path(__file__).parents[1]


class LoadFailed(RuntimeError):
    """The load did not run; the text names the log to read."""


def say(text: str) -> None:
    print(f"[load] {text}", flush=True)


class Conductor:
    """Owner: the command line, for one run. `figures` is the last table, set by `play`."""

    def __init__(
        self, folder: Path, settings: Settings, bootstrap: str, broker: OwnBroker | None, plan: list[Fault]
    ) -> None:
        self.folder = folder
        self.settings = settings
        self._broker = broker
        self._plan = plan
        self.clock = Clock()
        number = int(self.clock.now_ns() // 1_000_000) & 0x7FFFFFFF
        self.run = Run(
            run=number,
            seed=settings.seed,
            bootstrap=bootstrap,
            broker=broker.kind if broker else "unknown",
            started_ns=self.clock.now_ns(),
            settings=settings.to_json(),
            topics=plan_topics(number, settings),
            data_dirs=[str(broker.data_dir)] if broker else [],
        )
        self.figures: dict[str, Any] = {}
        self.injector: Injector | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def prepare(self) -> None:
        """Write run.json and create the topics; afterwards the run can be judged live. Raises
        KafkaException."""
        (self.folder / "pages").mkdir(parents=True, exist_ok=True)
        save_run(self.folder, self.run)
        create_topics(self.run, self.settings)

    def play(self) -> None:
        """Run the prepared load with its faults, until all players have ended. Raises
        LoadFailed."""
        begin_ns = self.clock.now_ns() + int(START_S * 1e9)
        locust_parameters.save(
            self.folder, locust_parameters.LocustParameters(begin_ns, self.clock.offset_ns, self.clock.boot)
        )
        self.injector = Injector(
            self.folder, self._broker, self._plan, begin_ns, self.clock, self.settings.seed, say
        )
        self._start_locust()
        self.injector.start()
        try:
            self._follow(begin_ns)
        finally:
            self.injector.finish()
            for process in self._processes:
                if process.poll() is None:
                    process.terminate()
        self.run.ended_ns = self.clock.now_ns()
        self.run.faults = self.injector.rows
        save_run(self.folder, self.run)
        if not any(self.figures.get(name) for name in ("acked", "not_acked")):
            raise LoadFailed(
                f"nothing was sent; see {self.folder / 'players.log'} and {self.folder / 'locust.log'}"
            )

    def drain(self) -> bool:
        """Read all topics again; returns whether all ends were reached."""
        say("drain: reading every topic from its start to its end, with both isolation levels")
        began = time.monotonic()
        whole = drain(self.folder, self.run, self.clock)
        records = sum(e.high_watermark - e.start_offset for t in self.run.ends.values() for e in t.values())
        say(
            f"drain: {records} offsets, {'complete' if whole else 'NOT complete'}, {time.monotonic() - began:.1f} s"
        )
        for topic, partitions in self.run.ends.items():
            for partition, end in partitions.items():
                if end.last_stable_offset < end.high_watermark:
                    say(
                        f"a transaction stays open in {topic}-{partition} from offset {end.last_stable_offset} on"
                    )
        return whole

    def _start_locust(self) -> None:
        seconds = START_S + self.settings.seconds
        command = [
            *RUN_MODULE,
            "locust",
            "-f",
            str(ROOT / "loadtest" / "locustfile.py"),
            "--headless",
        ]
        users = self._users()
        play = ["-u", str(users), "-r", str(users), "-t", f"{seconds:.0f}s", "--stop-timeout", str(STOP_S)]
        reports = [
            "--html",
            str(self.folder / "locust.html"),
            "--csv",
            str(self.folder / "locust"),
            "--only-summary",
        ]
        environment = {**os.environ, locust_parameters.VARIABLE: str(self.folder), "PYTHONPATH": str(ROOT)}
        with open(self.folder / "locust.log", "ab") as log:

            def start(*words: str) -> None:
                self._processes.append(
                    subprocess.Popen(
                        [*command, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                    )
                )

            if self.settings.workers == 1:
                start(*play, *reports)
                return
            port = free_port()
            start(
                *play,
                *reports,
                "--master",
                "--master-bind-host=127.0.0.1",
                f"--master-bind-port={port}",
                f"--expect-workers={self.settings.workers}",
            )
            for _ in range(self.settings.workers):
                start("--worker", "--master-host=127.0.0.1", f"--master-port={port}")

    def _users(self) -> int:
        settings = self.settings
        return settings.producers + settings.copiers + settings.consumers + settings.sharers

    def _follow(self, begin_ns: int) -> None:
        """Print a line and write a row of timeline.jsonl every few seconds, until Locust has
        ended."""
        pages = Pages(self.folder)
        before, first = Figures(), Figures()
        at = began = time.monotonic()
        locust = psutil.Process(self._processes[0].pid)
        locust_cpu = 0.0
        patience = time.monotonic() + START_S + self.settings.seconds + STOP_S + 60
        with open(self.folder / "timeline.jsonl", "a", buffering=1) as timeline:
            while self._processes[0].poll() is None:
                time.sleep(0.2)
                now = time.monotonic()
                if now > patience:
                    raise LoadFailed("Locust does not end")
                if now - at < TICK_S:
                    continue
                figures = pages.read()
                row = {"at_ns": self.clock.now_ns(), **interval(figures, before, now - at)}
                locust_cpu = self._locust_cpu(locust, locust_cpu)
                row["locust_cpu_s"] = round(locust_cpu, 2)
                timeline.write(json.dumps(row) + "\n")
                self._say(row, (row["at_ns"] - begin_ns) / 1e9)
                before, at = figures, now
        last = pages.read()
        spent = max(min(self.settings.seconds, time.monotonic() - began), 0.001)
        totals = interval(last, first, spent)
        skip = {"waiting", "clients"}
        self.figures = {
            "acked": last.acked,
            "seen": last.seen,
            **{name: value for name, value in totals.items() if name not in skip},
            "locust_cpu_s": round(locust_cpu, 2),
            "producer_lives": len(load_producers(self.folder)),
            "faults": self.injector.counts if self.injector else {},
        }
        write_json(self.folder / "figures.json", self.figures)

    def _locust_cpu(self, locust: psutil.Process, known: float) -> float:
        try:
            times = locust.cpu_times()
            return float(times.user + times.system)
        except psutil.Error:
            return known

    def _say(self, row: dict[str, Any], at_s: float) -> None:
        busy = row["busiest_client_cpu_percent"]
        warning = "  CLIENT IS BUSY: its own queue is part of these times" if busy > BUSY else ""
        say(
            f"{at_s:6.0f} s  acked {row['acked_per_s']:8.0f}/s  seen {row['seen_per_s']:8.0f}/s  "
            f"ack p50 {_ms(row['ack_p50_ms'])} p99 {_ms(row['ack_p99_ms'])}  "
            f"end to end p99 {_ms(row['end_to_end_p99_ms'])}  not acked {row['not_acked']}  waiting {row['waiting']}  "
            f"clients {row['clients']} at {row['clients_cpu_percent']:.0f} % CPU, busiest {busy:.0f} %{warning}"
        )

    def abandon(self) -> None:
        """On Ctrl-C: players end cleanly, Locust writes its reports."""
        for path in (self.folder / "pages").glob("*.page"):
            Page(path)[Slot.STOP] = 1
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def _ms(value: float | None) -> str:
    return "    -   " if value is None else f"{value:.2f} ms"


def free_port() -> int:
    """A port without a listener, below those of outgoing connections: none takes it before Locust's
    master listens."""
    while True:
        port = random.randrange(12_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def describe(settings: Settings) -> str:
    """The run in one line."""
    content = asdict(settings)
    content["record_bytes"] = "-".join(map(str, settings.record_bytes))
    return " ".join(f"{name}={value}" for name, value in content.items())
