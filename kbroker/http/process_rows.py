"""Samples from the slots of all processes."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from kbroker.http.families import Families
from kbroker.http.recent_readings import RecentReadings
from kbroker.ipc.shared import Shared
from kbroker.metrics import layout
from kbroker.metrics.kafka import BROKER_TOPIC, REJECTED, REQUEST, REQUEST_TIMES
from kbroker.metrics.labels import OTHER_STAGES, PHASES, STAGES, VALUES
from kbroker.metrics.metric import Kind
from kbroker.metrics.slots import METRIC_WORDS, MetricWords, bind
from kbroker.protocol.api_keys import ApiKey

Words = NDArray[np.int64]
PRODUCE, FETCH = "Produce", "Fetch"
OF_PRODUCE = {"local": "append", "purgatory": "flush"}
"""Kafka's phases of a Produce request: a handler thread appends, then acks=all waits in the
purgatory."""
WINDOW_S = 300.0
ALWAYS = 64
"""Metrics with at most this many series export all of them from the start, at 0. Otherwise an alert
on an increase would miss the first event of a series."""
IDLE_WINDOW_S = 60.0
HANDLER_IDLE = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
IDLE_READING = ("idle", "")
AS_CONSUMER = "FetchConsumer"
"""Kafka's name for the fetches of clients, besides Fetch; dashboards use either name."""


def process_names(shared: Shared) -> list[str]:
    """Value of the label `process` for each row of ``shared.metrics``."""
    networks = [f"network-{index}" for index in range(shared.sizes.clients - 1)]
    workers = [f"io-{index}" for index in range(shared.sizes.workers)]
    return [*networks, "control", *workers, "http", "cleaner", "acceptor"]


class ProcessRows(Struct, frozen=True):
    """Reads the rows of all processes. Runs in: http.

    listeners: names by number. recent_times and recent_idle remember earlier readings, for
    quantiles and shares. seen: rows of processes that have counted a series, by its word: it stays
    when it falls to 0.
    """

    shared: Shared
    listeners: Sequence[str]
    recent_times: RecentReadings
    recent_idle: RecentReadings
    seen: dict[int, set[int]] = field(default_factory=dict)

    def add(self, families: Families) -> None:
        """Add every row of the catalogue that processes count, and its Kafka names."""
        apis = self._apis()
        for place in METRIC_WORDS.values():
            if place.metric.kind is Kind.HISTOGRAM:
                self._histograms(families, place, apis)
            else:
                self._numbers(families, place, apis)
        for api in ApiKey:
            families.add("kbroker_failed_requests_total", (api.title,), self._failures(api.title))
        if families.kafka:
            self._kafka_times(families, apis)
            self._kafka_sums(families)
            self._kafka_idle(families)

    def _apis(self) -> list[int]:
        """API keys with a request so far. Pages of other keys are not touched."""
        span = layout.API_COUNT * layout.VERSION_COUNT
        words = self.shared.metrics[:, layout.REQUESTS : layout.REQUESTS + span].sum(axis=0)
        used: list[int] = np.flatnonzero(words.reshape(layout.API_COUNT, -1).sum(axis=1)).tolist()
        return used

    def _series(self, place: MetricWords, apis: Sequence[int]) -> list[tuple[int, tuple[str, ...]]]:
        """(first word, label values) of the series that may have a value."""
        choices = []
        for label, count in zip(place.metric.labels, place.shape, strict=True):
            names: Sequence[str] = self.listeners if label == "listener" else VALUES[label]
            numbers = apis if label == "api" else range(min(count, len(names)))
            choices.append([(number, names[number]) for number in numbers])
        found = []
        for chosen in product(*choices):
            number = 0
            for (index, _), count in zip(chosen, place.shape, strict=True):
                number = number * count + index
            found.append((place.start + number * place.width, tuple(name for _, name in chosen)))
        return found

    def _numbers(self, families: Families, place: MetricWords, apis: Sequence[int]) -> None:
        metric = place.metric
        always = place.size <= ALWAYS
        names = process_names(self.shared)
        for word, values in self._series(place, apis):
            column = self.shared.metrics[:, word]
            if metric.by_process:
                seen = self.seen.setdefault(word, set())
                seen.update(np.flatnonzero(column).tolist())
                if metric.role:
                    seen.update(row for row, name in enumerate(names) if name.startswith(metric.role))
                for row in sorted(seen):
                    families.add(metric.name, (*values, names[row]), int(column[row]) * metric.scale)
            elif (total := int(column.sum())) or always:
                families.add(metric.name, values, total * metric.scale)

    def _histograms(self, families: Families, place: MetricWords, apis: Sequence[int]) -> None:
        metric = place.metric
        names = process_names(self.shared)
        for word, values in self._series(place, apis):
            rows = self.shared.metrics[:, word : word + layout.HISTOGRAM_WORDS]
            if metric.by_process:
                for number in np.flatnonzero(rows.any(axis=1)).tolist():
                    families.add_histogram(metric.name, (*values, names[number]), rows[number].tolist())
            else:
                summed = rows.sum(axis=0)
                if summed.any() or not metric.labels:
                    families.add_histogram(metric.name, values, summed.tolist())

    # --- Kafka's names -----------------------------------------------------------------------------------

    def _times(self, word: int) -> Words:
        words: Words = self.shared.metrics[:, word : word + layout.HISTOGRAM_WORDS].sum(axis=0)
        return words

    def _phase(self, api: int, phase: str) -> Words:
        """Times of one of Kafka's phases; an API without it spends no time in it, as in Kafka."""
        name = VALUES["api"][api]
        if name == PRODUCE:
            phase = OF_PRODUCE.get(phase, phase)
        none = phase not in STAGES.get(name, OTHER_STAGES)
        number = (
            api * layout.PHASE_COUNT + PHASES.index("total" if none else phase)
        ) * layout.HISTOGRAM_WORDS
        words = self._times(layout.PHASE_SECONDS + number)
        if none:
            words[0] = words[: layout.HISTOGRAM_BUCKETS].sum()
            words[1:] = 0
        return words

    def _kafka_times(self, families: Families, apis: Sequence[int]) -> None:
        """Request times by API and the times of syncs; quantiles over the last minutes."""
        readings: dict[tuple[str, str], Words] = {}
        for api in apis:
            for name, phase in REQUEST_TIMES.items():
                readings[REQUEST + name, VALUES["api"][api]] = self._phase(api, phase)
        flushes = "kafka_log_logflushstats_logflushrateandtimems"
        readings[flushes, ""] = self._times(bind("kbroker_flush_seconds"))
        before = self.recent_times.remember(readings, WINDOW_S)
        for (name, request), total in readings.items():
            earlier = before.get((name, request))
            recent = (total if earlier is None else total - earlier).tolist()
            for shown in (FETCH, AS_CONSUMER) if request == FETCH else (request,):
                families.add_times_ms(name, {"request": shown} if shown else {}, recent, total.tolist())

    def _sum(self, name: str, **labels: int | str) -> int:
        return int(self.shared.metrics[:, bind(name, **labels)].sum())

    def _kafka_sums(self, families: Families) -> None:
        for name, reason in REJECTED.items():
            count = self._sum("kbroker_request_errors_total", api=PRODUCE, error=reason)
            families.add(BROKER_TOPIC + name, (), count)
        for api, name in ((PRODUCE, "totalproducerequests_total"), (FETCH, "totalfetchrequests_total")):
            versions = range(layout.VERSION_COUNT)
            requests = sum(
                self._sum("kbroker_requests_total", api=api, version=version) for version in versions
            )
            families.add_total(BROKER_TOPIC + name, requests)
        for api, name in ((PRODUCE, "failedproducerequests_total"), (FETCH, "failedfetchrequests_total")):
            families.add_total(BROKER_TOPIC + name, self._failures(api))
        commits = self._sum("kbroker_request_errors_total", api="OffsetCommit", error="NONE")
        families.add("kafka_server_group_coordinator_metrics_offset_commit_count", (), commits)

    def _failures(self, api: str) -> int:
        """Errors in the answers of an API."""
        start = bind("kbroker_request_errors_total", api=api)
        errors = self.shared.metrics[:, start : start + layout.ERROR_COUNT].sum(axis=0)
        return int(errors.sum() - errors[VALUES["error"].index("NONE")])

    def _kafka_idle(self, families: Families) -> None:
        """Share of the last minute in which IO workers were idle."""
        idle = {IDLE_READING: self.shared.metrics[:, layout.IDLE_NS].copy()}
        before, seconds = self.recent_idle.remember_at(idle, IDLE_WINDOW_S)
        if seconds <= 0:
            return
        share = np.clip((idle[IDLE_READING] - before[IDLE_READING]) / (seconds * 1e9), 0.0, 1.0)
        rows = [row for row, process in enumerate(process_names(self.shared)) if process.startswith("io-")]
        families.add(HANDLER_IDLE, (), float(share[rows].mean()))
