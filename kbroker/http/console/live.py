"""The overview, sampled once a second while it is watched, and its history."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbroker.http.console.readings import Reader, Reading
from kbroker.http.console.sample import sample
from kbroker.http.console.space import Space
from kbroker.http.control_view import INFORMED_S, ControlView
from kbroker.http.group_lags import LogRanges
from kbroker.http.health import Health
from kbroker.http.host_rows import memory_bytes
from kbroker.http.partition_rows import degraded
from kbroker.ipc.shared import Shared

log = logging.getLogger(__name__)

KEPT = 600
"""Samples in the history: ten minutes while it is watched."""
WATCHED_S = 1.0
UNWATCHED_S = 5.0
WATCHED_FOR_S = 120.0
"""The overview counts as watched for this long after the last request."""
LAG_S = 5.0
"""The groups' offsets are requested from control as often as this, and only while the overview is
watched."""
LATENCY_S = 10.0
"""The window of quantiles: a second has too few requests."""
CHARTED = ("in_bytes", "out_bytes", "in_records", "requests", "errors", "cold_share", "lag")


class Live:
    """Runs in: http; a separate thread samples. Owner: the console. Thread-safe.

    changed: notified with each sample."""

    def __init__(
        self,
        shared: Shared,
        view: ControlView,
        health: Health,
        reader: Reader,
        space: Space,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._view = view
        self._health = health
        self._reader = reader
        self._space = space
        self._clock_s = clock_s
        self._readings: deque[Reading] = deque(maxlen=int(LATENCY_S) + 1)
        self._history: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._latest: dict[str, Any] = {}
        self._lag: dict[str, dict[str, int]] = {}
        self._lag_at = float("-inf")
        self._watched_at = float("-inf")
        self._stop = threading.Event()
        self._wake = threading.Event()
        self.changed = threading.Condition()
        self.number = 0

    def start(self) -> None:
        """Sample from now on."""
        threading.Thread(target=self._run, name="console-live", daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()

    def mark_watched(self) -> None:
        """Note that the overview is watched: sample every WATCHED_S for WATCHED_FOR_S."""
        slow = not self._is_watched()
        self._watched_at = self._clock_s()
        if slow:
            self._wake.set()

    def latest(self) -> dict[str, Any]:
        """The last sample; the first one is taken at once. The lag is read again if it was not
        watched lately."""
        self.mark_watched()
        if not self._latest:
            return self.take()
        if not self._knows_lag():
            self._read_lag()
            with self.changed:
                self._latest = self._latest | self._lag_members()
        with self.changed:
            return self._latest

    def history(self) -> list[dict[str, Any]]:
        """The samples for the charts, oldest first."""
        with self.changed:
            return list(self._history)

    def topic_rates(self) -> dict[str, dict[str, float]]:
        """Rates by topic of the last sample."""
        rates: dict[str, dict[str, float]] = self.latest()["topics"]
        return rates

    def take(self) -> dict[str, Any]:
        """Take a sample now."""
        reading = self._reader.read(self._view.directory)
        with self.changed:
            before = self._readings[-1] if self._readings else reading
            oldest = self._readings[0] if self._readings else reading
            self._readings.append(reading)
        made = sample(before, reading) | {"at_ms": int(time.time() * 1000)}
        made["stages"] = sample(oldest, reading)["stages"]
        made |= self._state()
        with self.changed:
            self._latest = made
            unknown = {} if self._knows_lag() else {"lag": None}
            self._history.append(_charted(made) | unknown)
            self.number += 1
            self.changed.notify_all()
        return made

    def _run(self) -> None:
        self._view.informed.wait(INFORMED_S)  # an earlier sample would show a broker that is not ready
        failed = False
        while not self._stop.is_set():
            try:
                self.take()
            except Exception:  # the overview is served, and sampled again, until the process ends
                if not failed:
                    log.exception("the overview of the console has no new sample")
                failed = True
            else:
                failed = False
            self._wake.clear()
            self._wake.wait(WATCHED_S if self._is_watched() else UNWATCHED_S)

    def _is_watched(self) -> bool:
        return self._clock_s() - self._watched_at < WATCHED_FOR_S

    def _state(self) -> dict[str, Any]:
        directory = self._view.directory
        now = self._clock_s()
        if now - self._lag_at >= LAG_S and self._is_watched():
            self._read_lag()
        problems = self._health.not_ready()
        return {
            "ready": not problems,
            "problems": problems[:20],
            "degraded": degraded(self._shared, directory),
            "topic_count": len(directory.topics),
            "partition_count": len(directory.partitions),
            "log_dirs": self._space.sample(now),
            "memory": memory_bytes(Path("/proc/meminfo")),
        } | self._lag_members()

    def _knows_lag(self) -> bool:
        """Whether the lag is that of the last seconds."""
        return self._clock_s() - self._lag_at < 2 * LAG_S

    def _read_lag(self) -> None:
        self._lag = self._lags()
        self._lag_at = self._clock_s()

    def _lag_members(self) -> dict[str, Any]:
        """The total, and the lag of each group by topic: a reader is shown visible topics only."""
        return {"lag": sum(sum(lags.values()) for lags in self._lag.values()), "topic_lag": self._lag}

    def _lags(self) -> dict[str, dict[str, int]]:
        ranges = LogRanges(self._shared, self._view.directory)
        return {group.group_id: ranges.lag_of_topics(group) for group in self._view.groups()}


def _charted(made: dict[str, Any]) -> dict[str, Any]:
    """The part of a sample that is kept for charts."""
    point = {name: made[name] for name in CHARTED}
    for api in ("produce", "fetch"):
        total = made["stages"][api].get("total")
        point[f"{api}_p99_ms"] = total["p99_ms"] if total else None
    for direction in ("read", "write"):
        point[f"disk_{direction}_bytes"] = sum(disk[f"{direction}_bytes"] for disk in made["disks"])
    for direction in ("in", "out"):
        point[f"nic_{direction}_bytes"] = sum(
            nic[f"{direction}_bytes"] for nic in made["nics"] if nic["name"] != "lo"
        )
    return {"at_ms": made["at_ms"], **point}
