"""The console's readings, one a second: counters of shared memory and of the host."""

import logging
import time
from collections.abc import Mapping

import numpy as np
import psutil
from msgspec import Struct, field
from numpy.typing import NDArray

from kbroker.http.directory import Directory
from kbroker.http.disks import disks_of
from kbroker.http.host_limits import HostLimits
from kbroker.http.host_rows import link_bytes_per_s
from kbroker.http.partition_rows import BY_TOPIC, partition_counters
from kbroker.http.process_rows import process_names
from kbroker.ipc.layout import Counter, ProcessLine
from kbroker.ipc.shared import Shared
from kbroker.metrics import layout as ml
from kbroker.metrics.labels import PHASES, VALUES
from kbroker.metrics.slots import METRIC_WORDS, bind

log = logging.getLogger(__name__)

Words = NDArray[np.int64]
COUNTERS = {
    "in_bytes": "kbroker_appended_bytes_total",
    "in_records": "kbroker_appended_records_total",
    "out_bytes": "kbroker_fetched_bytes_total",
}
TOPIC_COUNTERS = {
    "in_bytes": "kbroker_topic_in_bytes_total",
    "in_records": "kbroker_topic_in_records_total",
    "out_bytes": "kbroker_topic_out_bytes_total",
    "cold_bytes": "kbroker_topic_cold_bytes_total",
}
APIS = ("Produce", "Fetch")
POLLED = bind("kbroker_polling_seconds_total")
ERROR_FREE = VALUES["error"].index("NONE")


class Reading(Struct):
    """at_s: monotonic. totals: by name of COUNTERS, and requests, errors, connections. stages:
    histogram buckets by API and phase. topics: TOPIC_COUNTERS by topic. disks: bytes read and
    written, operations, ms spent in them, busy ms. nics: bytes in and out, and the capacity of the
    link per second (0: unknown). cpu: seconds by process; polling: those for which it polled;
    memory: resident bytes. limits: measured speeds of this host."""

    at_s: float
    totals: dict[str, int] = field(default_factory=dict)
    stages: dict[tuple[str, str], Words] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    disks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    nics: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    polling: dict[str, float] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    deaths: int = 0


class Reader:
    """Runs in: http, in the console's sampling thread."""

    def __init__(
        self, shared: Shared, acceptor: int, log_dirs: tuple[str, ...], limits: HostLimits | None = None
    ) -> None:
        self._shared = shared
        self._acceptor = acceptor
        self._log_dirs = log_dirs
        self._limits = limits
        self._known: dict[int, psutil.Process] = {}

    def read(self, directory: Directory) -> Reading:
        """All values that this host shows; others are left out."""
        reading = Reading(time.monotonic())
        self._counters(reading)
        self._topics(reading, directory)
        if self._limits is not None:
            reading.limits = self._limits.speeds()
        for part in (self._disks, self._nics, self._processes):
            try:
                part(reading)
            except (OSError, ValueError, IndexError, psutil.Error) as error:
                log.debug("%s cannot be read: %s", part.__name__, error)
        return reading

    def _sum(self, start: int, size: int = 1) -> int:
        return int(self._shared.metrics[:, start : start + size].sum())

    def _counters(self, reading: Reading) -> None:
        totals = reading.totals
        for name, metric in COUNTERS.items():
            totals[name] = self._sum(bind(metric))
        requests = METRIC_WORDS["kbroker_requests_total"]
        totals["requests"] = self._sum(requests.start, requests.size)
        errors = METRIC_WORDS["kbroker_request_errors_total"]
        counted = self._shared.metrics[:, errors.start : errors.start + errors.size].sum(axis=0)
        by_error = counted.reshape(errors.shape).sum(axis=0)
        totals["errors"] = int(by_error.sum() - by_error[ERROR_FREE])
        connections = METRIC_WORDS["kbroker_connections"]
        totals["connections"] = self._sum(connections.start, connections.size)
        deaths = METRIC_WORDS["kbroker_process_deaths_total"]
        reading.deaths = self._sum(deaths.start, deaths.size)
        for api in APIS:
            for phase in PHASES:
                start = bind("kbroker_request_phase_seconds", api=api, phase=phase)
                words = self._shared.metrics[:, start : start + ml.HISTOGRAM_BUCKETS]
                reading.stages[api, phase] = words.sum(axis=0)

    def _topics(self, reading: Reading, directory: Directory) -> None:
        counters = partition_counters(self._shared, directory)
        sums = Counter.table(len(directory.topics))
        np.add.at(sums, directory.topic_numbers, counters)
        columns = {name: sums[:, BY_TOPIC[metric]].tolist() for name, metric in TOPIC_COUNTERS.items()}
        for number, topic in enumerate(directory.topics):
            reading.topics[topic.name] = {name: column[number] for name, column in columns.items()}

    def _disks(self, reading: Reading) -> None:
        for name, disk in disks_of(self._log_dirs).items():
            operations, spent_ms = disk.read_count + disk.write_count, disk.read_time + disk.write_time
            reading.disks[name] = (disk.read_bytes, disk.write_bytes, operations, spent_ms, disk.busy_time)

    def _nics(self, reading: Reading) -> None:
        speeds = psutil.net_if_stats()
        for name, counts in psutil.net_io_counters(pernic=True).items():
            speed = link_bytes_per_s(speeds[name].speed) if name in speeds else 0
            reading.nics[name] = (counts.bytes_recv, counts.bytes_sent, speed)

    def _processes(self, reading: Reading) -> None:
        lines = self._shared.processes
        names = process_names(self._shared)
        reading.polling = dict(zip(names, (self._shared.metrics[:, POLLED] * 1e-9).tolist(), strict=True))
        pids = [(names[row], int(lines[row, ProcessLine.PID])) for row in range(len(lines))]
        seen: dict[int, psutil.Process] = {}
        for name, pid in [*pids, (names[self._shared.supervisor_row], self._acceptor)]:
            if not pid:
                continue
            try:
                process = seen[pid] = self._known.get(pid) or psutil.Process(pid)
                times = process.cpu_times()
                reading.cpu[name] = times.user + times.system
                reading.memory[name] = process.memory_info().rss
            except (psutil.Error, OSError):  # it died; its successor has another pid
                continue
        self._known = seen
