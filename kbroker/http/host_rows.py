"""Samples of the host: processes of the broker, log dirs and their devices, pressure, network,
memory."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from numpy.typing import NDArray

from kbroker.http.disks import disks_of
from kbroker.http.families import Families
from kbroker.http.host_limits import HostLimits
from kbroker.http.process_rows import IDLE_WINDOW_S, process_names
from kbroker.http.recent_readings import RecentReadings
from kbroker.http.time_to_full import TimeToFull
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.shared import Shared
from kbroker.metrics.slots import bind

log = logging.getLogger(__name__)

MBIT = 125_000
UNKNOWN_SPEED = 65535  # -1 of drivers that report 16 bits
CPU = "process_cpu_seconds_total"
SUMS = (
    CPU,
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
    "process_max_fds",
)
"""Prometheus' usual names, for the broker as a whole."""
PROCESSOR_IDLE = "kafka_network_socketserver_networkprocessoravgidle_percent"
POLLED = bind("kbroker_polling_seconds_total")
PRESSURE = ("cpu", "io", "memory")
MEMORY = {
    "MemTotal": "total",
    "MemAvailable": "available",
    "Cached": "page_cache",
    "Dirty": "dirty",
    "Writeback": "writeback",
}


def link_bytes_per_s(megabits: int) -> int:
    """Bytes a second of a link, from the speed that its driver reports; 0 if it reports none."""
    return megabits * MBIT if megabits > 0 and megabits != UNKNOWN_SPEED else 0


def memory_bytes(meminfo: Path) -> dict[str, int]:
    """The host's memory and its page cache, by kind. psutil has neither dirty pages nor those under
    write-back, and counts slabs as cache."""
    lines = (line.split(":") for line in meminfo.read_text().splitlines())
    return {MEMORY[name]: int(value.split()[0]) * 1024 for name, value in lines if name in MEMORY}


class HostRows:
    """Runs in: http. proc: path of procfs; tests pass a folder. recent: earlier readings, for
    shares of CPU time. forecasts: by log dir; the console shows the same ones."""

    def __init__(
        self,
        shared: Shared,
        acceptor: int,
        log_dirs: Sequence[str],
        recent: RecentReadings,
        proc: Path = Path("/proc"),
        limits: HostLimits | None = None,
    ) -> None:
        self._limits = limits
        self._recent = recent
        self._shared = shared
        self._acceptor = acceptor
        self._log_dirs = tuple(log_dirs)
        self._proc = proc
        self._known: dict[int, psutil.Process] = {}
        kept = zip(self._log_dirs, shared.free_space, strict=False)
        self.forecasts: Final = {path: TimeToFull(samples) for path, samples in kept}
        self._sums: dict[str, float] = {}
        self._largest: dict[str, float] = {}

    def add(self, families: Families) -> None:
        """Samples of the host; values that it does not have (no PSI, no device) are left out."""
        self._processes(families)
        for part in (self._dirs, self._devices, self._pressure, self._network, self._memory, self._measured):
            try:
                part(families)
            except (OSError, ValueError, IndexError, KeyError) as error:
                log.debug("%s cannot be read: %s", part.__name__, error)

    # --- processes -----------------------------------------------------------------------------------

    def _pids(self) -> Iterator[tuple[str, int]]:
        lines = self._shared.processes
        names = process_names(self._shared)
        for row in range(len(lines)):
            if pid := int(lines[row, ProcessLine.PID]):
                yield names[row], pid
        yield names[self._shared.supervisor_row], self._acceptor

    def _processes(self, families: Families) -> None:
        read = written = 0
        self._sums = dict.fromkeys(SUMS, 0.0)
        cpu: dict[tuple[str, str], NDArray[np.int64]] = {}
        polled = dict(zip(process_names(self._shared), self._shared.metrics[:, POLLED].tolist(), strict=True))
        seen: dict[int, psutil.Process] = {}
        for name, pid in self._pids():
            try:
                process = seen[pid] = self._known.get(pid) or psutil.Process(pid)
                self._process(families, name, process)
                io = process.io_counters()
                if name.startswith("network"):
                    times = process.cpu_times()
                    busy_ns = (times.user + times.system) * 1e9 - polled[name]
                    cpu[name, str(pid)] = np.array([busy_ns], np.int64)
            except (psutil.Error, OSError) as error:  # it died, or procfs hides it
                log.debug("process %d cannot be read: %s", pid, error)
                continue
            read += io.read_bytes
            written += io.write_bytes
        self._known = seen
        self._sums[CPU] = self._growing(CPU, self._sums[CPU])
        for metric, total in self._sums.items():
            families.add(metric, (), total)
        if seen:
            began = min(process.create_time() for process in seen.values())
            families.add("process_start_time_seconds", (), began)
        if families.kafka:
            families.add("kafka_server_kafkaserver_linux_disk_read_bytes", (), self._growing("read", read))
            families.add(
                "kafka_server_kafkaserver_linux_disk_write_bytes", (), self._growing("write", written)
            )
            self._network_idle(families, cpu)

    def _growing(self, name: str, total: float) -> float:
        """A sum over processes that never falls. The kernel adds the times and bytes of a child
        that died to those of its parent, but not before the parent has collected it."""
        found = self._largest[name] = max(total, self._largest.get(name, total))
        return found

    def _network_idle(self, families: Families, cpu: dict[tuple[str, str], NDArray[np.int64]]) -> None:
        """A network process has one thread and never waits for a disk: the time that it does not
        compute, or only polls, it is idle."""
        before, seconds = self._recent.remember_at(cpu, IDLE_WINDOW_S)
        shares = [
            1 - int((now - before[process])[0]) / (seconds * 1e9)
            for process, now in cpu.items()
            if seconds > 0 and process in before
        ]
        if shares:
            families.add(PROCESSOR_IDLE, (), min(1.0, max(0.0, sum(shares) / len(shares))))

    def _process(self, families: Families, name: str, process: psutil.Process) -> None:
        with process.oneshot():
            times = process.cpu_times()
            memory = process.memory_full_info()
            families.add("kbroker_process_cpu_seconds_total", (name, "user"), times.user)
            families.add("kbroker_process_cpu_seconds_total", (name, "system"), times.system)
            for kind in ("pss", "uss", "rss"):
                families.add("kbroker_process_memory_bytes", (name, kind), getattr(memory, kind))
            fds = process.num_fds()
            families.add("kbroker_process_open_fds", (name,), fds)
            sums = self._sums
            sums[CPU] += times.user + times.system + times.children_user + times.children_system
            sums["process_resident_memory_bytes"] += memory.pss
            sums["process_virtual_memory_bytes"] += memory.vms
            sums["process_open_fds"] += fds
            sums["process_max_fds"] += process.rlimit(psutil.RLIMIT_NOFILE)[0]
            families.add("kbroker_process_threads", (name,), process.num_threads())
            families.add("kbroker_process_start_time_seconds", (name,), process.create_time())

    # --- disks ---------------------------------------------------------------------------------------

    def _dirs(self, families: Families) -> None:
        for path, forecast in self.forecasts.items():
            try:
                space = os.statvfs(path)
            except OSError as error:  # it went offline
                log.debug("%s cannot be read: %s", path, error)
                continue
            for kind, blocks in (
                ("size", space.f_blocks),
                ("used", space.f_blocks - space.f_bfree),
                ("free", space.f_bavail),
            ):
                families.add("kbroker_log_dir_bytes", (path, kind), blocks * space.f_frsize)
            forecast.add(self._recent.now_s(), space.f_bavail * space.f_frsize)
            if (seconds := forecast.seconds()) is not None:
                families.add("kbroker_log_dir_full_seconds", (path,), seconds)

    def _devices(self, families: Families) -> None:
        for name, disk in disks_of(self._log_dirs).items():
            for direction in ("read", "write"):
                operations, size, milliseconds = (
                    getattr(disk, f"{direction}_{what}") for what in ("count", "bytes", "time")
                )
                families.add("kbroker_disk_operations_total", (name, direction), operations)
                families.add("kbroker_disk_bytes_total", (name, direction), size)
                families.add("kbroker_disk_time_seconds_total", (name, direction), milliseconds / 1000)
            families.add("kbroker_disk_busy_seconds_total", (name,), disk.busy_time / 1000)

    # --- the rest --------------------------------------------------------------------------------------

    def _pressure(self, families: Families) -> None:
        """psutil does not read it."""
        for resource in PRESSURE:
            for line in (self._proc / "pressure" / resource).read_text().splitlines():
                kind, *pairs = line.split()
                total = dict(pair.split("=") for pair in pairs)["total"]
                families.add("kbroker_pressure_seconds_total", (resource, kind), int(total) / 1e6)

    def _network(self, families: Families) -> None:
        for device, counts in psutil.net_io_counters(pernic=True).items():
            families.add("kbroker_network_bytes_total", (device, "in"), counts.bytes_recv)
            families.add("kbroker_network_bytes_total", (device, "out"), counts.bytes_sent)
            families.add("kbroker_network_drops_total", (device, "in"), counts.dropin)
            families.add("kbroker_network_drops_total", (device, "out"), counts.dropout)
        for device, state in psutil.net_if_stats().items():
            if speed := link_bytes_per_s(state.speed):
                families.add("kbroker_network_link_bytes_per_second", (device,), speed)
        tcp = self._table("snmp", "Tcp:")
        extended = self._table("netstat", "TcpExt:")
        families.add("kbroker_tcp_retransmits_total", (), tcp["RetransSegs"])
        families.add("kbroker_tcp_listen_drops_total", (), extended["ListenDrops"])

    def _table(self, name: str, prefix: str) -> dict[str, int]:
        """A pair of lines, names and values, of /proc/net/snmp or netstat, which psutil does not
        read."""
        lines = [
            line for line in (self._proc / "net" / name).read_text().splitlines() if line.startswith(prefix)
        ]
        names, values = (line.split()[1:] for line in lines[:2])
        return dict(zip(names, map(int, values), strict=True))

    def _memory(self, families: Families) -> None:
        for kind, value in memory_bytes(self._proc / "meminfo").items():
            families.add("kbroker_memory_bytes", (kind,), value)

    def _measured(self, families: Families) -> None:
        for what, speed in self._limits.speeds().items() if self._limits is not None else ():
            families.add("kbroker_host_limit_bytes_per_second", (what,), speed)
