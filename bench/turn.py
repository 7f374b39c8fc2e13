"""One turn: one broker does the work of one scenario; the cost of the measured part is recorded."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from bench.generator import Generator
from bench.measure import cpu_seconds, pss_bytes
from bench.profiler import Profiler
from bench.size import Size
from bench.targets import Target

READ_BYTES = 1 << 20

Measures = dict[str, float]
"""Figures of a turn by the keys of its scenario's measures."""


@dataclass(frozen=True)
class Load:
    """Result of one run of the load generator, with the broker's CPU between its begin and its
    end."""

    answer: dict[str, Any]
    broker_cpu: float
    broker_pss: int
    """PSS in bytes at the end of the measured part."""

    @property
    def seconds(self) -> float:
        return float(self.answer["seconds"])

    def rate(self, unit: str = "records") -> Measures:
        """Per second, and CPU in µs per unit ("records", "requests")."""
        count = max(float(self.answer[unit]), 1.0)
        return {
            "rate": count / self.seconds,
            "cpu_us": self.broker_cpu / count * 1e6,
            "client_cpu": float(self.answer["client_cpu"]) / count * 1e6,
        }

    def throughput(self) -> Measures:
        """MB (10^6 bytes) per second, and CPU seconds per GB (10^9 bytes)."""
        gigabytes = max(float(self.answer["bytes"]), 1.0) / 1e9
        return {
            "mb_per_s": gigabytes * 1e3 / self.seconds,
            "cpu_s_per_gb": self.broker_cpu / gigabytes,
            "client_cpu": float(self.answer["client_cpu"]) / gigabytes,
        }

    def latency(self, what: str = "ack", key: str = "latency_us") -> Measures:
        """Milliseconds."""
        return {
            f"{what}_{quantile}_ms": float(self.answer[key][quantile]) / 1e3
            for quantile in ("p50", "p99", "p999")
        }

    def lateness(self) -> Measures:
        return {"late_p99_ms": float(self.answer["lateness_us"]["p99"]) / 1e3}

    def running(self) -> Measures:
        """Milliseconds: how long the virtual machine's host had stopped processors, and the p99.9
        of the acks that no such stop touched. Nothing where the generator may not watch."""
        machine = self.answer.get("machine")
        if machine is None:
            return {}
        return {
            "running_p999_ms": float(machine["running_us"]["p999"]) / 1e3,
            "stopped_ms": float(machine["stopped_ms"]),
        }


@dataclass
class Turn:
    """The tools of a scenario. Topics made by `topic` go away with the turn, those of `kept_topic`
    stay."""

    target: Target
    generator: Generator
    size: Size
    number: int
    """Counts the turns of the run: makes names of topics unique."""
    kept: set[str]
    """Names of the topics already filled on this target."""
    profiler: Profiler | None = None
    made: list[str] = field(default_factory=list)
    last: tuple[str, dict[str, object]] = ("", {})
    """Command and options of the last load: a bare loop repeats it."""
    partitions: int = 1
    """Partitions of the topic that was created last."""

    def topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """A new, empty topic for this turn alone. config: settings of the topic."""
        unique = f"{name}-{self.number}"
        self.partitions = partitions
        self._create(unique, partitions, config)
        self.made.append(unique)
        return unique

    def kept_topic(self, name: str, partitions: int, fill: Callable[[str], object]) -> str:
        """A topic that is filled in the first round and read in all of them."""
        if name not in self.kept:
            self._create(name, partitions)
            fill(name)
            self.kept.add(name)
        return name

    def cached_topic(self, name: str, partitions: int, fill: Callable[[str], object]) -> str:
        """A kept topic whose logs are in the page cache: what other turns wrote since may have
        driven them out, and then its first reader would measure the disk."""
        self.kept_topic(name, partitions, fill)
        for log in sorted(self.target.data_dir.glob(f"{name}-*/*.log")):
            with open(log, "rb", buffering=0) as file:
                while file.read(READ_BYTES):
                    pass
        return name

    def fill(self, topic: str, total_bytes: int, records: int, value_bytes: int = 1024) -> None:
        """Produces batches of `records` records until the topic holds `total_bytes`."""
        self.generator.run(
            "produce",
            {
                "port": self.target.port,
                "topic": topic,
                "connections": 8,
                "records": records,
                "value_bytes": value_bytes,
                "warm": 0,
                "seconds": 240,
                "max_bytes": total_bytes,
            },
        )

    def load(self, command: str, **options: object) -> Load:
        """Runs the load generator against this turn's broker."""
        before, cpu, pss = 0.0, 0.0, 0
        self.last = command, options

        def on_event(event: str) -> None:
            nonlocal before, cpu, pss
            if event == "begin":
                before = cpu_seconds(self.target.pid)
                if self.profiler:
                    self.profiler.start(self.target)
            elif event == "end":
                cpu = cpu_seconds(self.target.pid) - before
                if self.profiler:
                    self.profiler.stop(self.target)
                pss = pss_bytes(self.target.pid)

        answer = self.generator.run(command, {"port": self.target.port, **options}, on_event)
        self.target.check_alive()
        return Load(answer, cpu, pss)

    def timed(self, times: float = 1) -> dict[str, object]:
        """Options of a load that runs for the size's time, or more where a figure is one of few
        records."""
        return {"warm": self.size.warm_seconds, "seconds": times * self.size.seconds}

    @contextmanager
    def fresh_broker(self) -> Iterator[Target]:
        """Another broker of the same kind with no data; not launched. Stopped and removed at the
        end."""
        folder = self.target.folder / f"fresh-{self.number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        broker = self.target.sibling(folder)
        try:
            yield broker
        finally:
            broker.stop()
            shutil.rmtree(folder, ignore_errors=True)

    def beside(self, broker: Target) -> "Turn":
        """A turn with the same load on another broker (of `fresh_broker`)."""
        return Turn(broker, self.generator, self.size, self.number, set(), self.profiler)

    def sync(self) -> None:
        """Dirty pages of earlier turns to disk, so that their write-back is not in this one's
        figures."""
        if self.size.sync:
            os.sync()

    def touch_memory(self, size: int) -> None:
        """Free memory that a virtual machine's host took back costs its first writer five times the
        CPU of other memory. A file of so many bytes, written and deleted, leaves its pages to the
        next file that grows: docs/lab/host-memory.md."""
        if not self.size.sync:
            return
        with tempfile.TemporaryFile(dir=self.target.data_dir.parent) as file:
            block = bytes(READ_BYTES)
            for _ in range(0, size, READ_BYTES):
                file.write(block)

    def clean_up(self) -> None:
        """Deletes the turn's topics."""
        if self.made:
            admin = self._admin()
            for future in admin.delete_topics(self.made, operation_timeout=30).values():
                future.result(60)
            self.made.clear()

    def _create(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin = self._admin()
        for future in admin.create_topics([topic], operation_timeout=60, request_timeout=60).values():
            future.result(90)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": f"127.0.0.1:{self.target.port}", "log_level": 3})
