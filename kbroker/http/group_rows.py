"""Samples of groups: members, committed offsets, lag."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from operator import itemgetter
from typing import TypeVar

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.http.group_lags import NO_OFFSETS, LogRanges
from kbroker.http.group_progress import GroupProgress
from kbroker.http.series import KeptLabels
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.shared import Shared
from kbroker.metrics.kafka import GROUP_STATES, GROUPS

CLASSIC = "classic"
STATES = {
    CLASSIC: ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    "consumer": ("Empty", "Assigning", "Reconciling", "Stable"),
    "share": ("Empty", "Stable"),
    "streams": ("Empty", "NotReady", "Assigning", "Reconciling", "Stable"),
}
"""The states of each type of group: each has a series, also while no group is in it."""
OF_GROUP = "kafka_consumergroup_"
T = TypeVar("T")


class GroupRows:
    """Runs in: http. At most `most` groups and as many of their partitions get series, those with
    the largest lag. details: the maximum of the partitions of a group that have a lag in
    seconds."""

    def __init__(self, shared: Shared, most: int, details: int, progress: GroupProgress) -> None:
        self._shared = shared
        self._progress = progress
        self._most = most
        self._details = details
        self._labels, self._known, self._sums, self._groups = (KeptLabels() for _ in range(4))
        self._timed, self._letters = KeptLabels(), KeptLabels()

    def add(self, families: Families, directory: Directory, groups: Iterable[GroupSummary]) -> None:
        """All groups."""
        groups = list(groups)
        states = Counter({(kind, state): 0 for kind, names in STATES.items() for state in names})
        states.update((group.kind, group.state) for group in groups)
        for (kind, state), count in states.items():
            families.add("kbroker_groups", (kind, state), count)
        rows, left_out, sums = _lags(groups, LogRanges(self._shared, directory), self._most)
        self._without_partitions(families, groups, sums)
        shown = _largest(rows, self._most, lambda row: -1 if row.lag is None else row.lag)
        families.add("kbroker_group_partitions_left_out", (), left_out + len(rows) - len(shown))
        committed = [row for row in shown if row.offset is not None]
        labels = self._labels.of([row.labels for row in committed])
        families.add_all("kbroker_group_offset", labels, [row.offset or 0 for row in committed])
        with_lag = [row for row in shown if row.lag is not None]
        known = self._known.of([row.labels for row in with_lag])
        lags = [row.lag or 0 for row in with_lag]
        families.add_all("kbroker_group_lag", known, lags)
        self._dead_letters(families, groups)
        self._seconds(families, with_lag)
        self._lag_rows(families, groups, rows)
        if families.kafka:
            self._kafka_states(families, states)

    def _without_partitions(
        self, families: Families, groups: Sequence[GroupSummary], sums: Mapping[tuple[str, str], list[int]]
    ) -> None:
        lags: Counter[str] = Counter()
        for (group_id, _), (_, lag) in sums.items():
            lags[group_id] += lag
        shown = _largest(groups, self._most, lambda group: lags[group.group_id])
        families.add("kbroker_groups_left_out", (), len(groups) - len(shown))
        labels = self._groups.of([(group.group_id,) for group in shown])
        families.add_all("kbroker_group_members", labels, [group.members for group in shown])
        families.add_all("kbroker_group_lag_sum", labels, [lags[group.group_id] for group in shown])
        if families.kafka:
            pairs = _largest(list(sums.items()), self._most, lambda pair: pair[1][1])
            by_topic = self._sums.of([pair for pair, _ in pairs])
            families.add_all(OF_GROUP + "current_offset_sum", by_topic, [offset for _, (offset, _) in pairs])
            families.add_all(OF_GROUP + "lag_sum", by_topic, [lag for _, (_, lag) in pairs])

    def _dead_letters(self, families: Families, groups: Iterable[GroupSummary]) -> None:
        pairs = [
            ((group.group_id, topic), count)
            for group in groups
            for topic, count in group.dead_letters.items()
        ]
        shown = _largest(pairs, self._most, lambda pair: pair[1])
        labels = self._letters.of([pair for pair, _ in shown])
        families.add_all("kbroker_group_dead_letters_total", labels, [count for _, count in shown])

    def _seconds(self, families: Families, rows: Sequence["Row"]) -> None:
        timed: defaultdict[str, list[tuple[tuple[str, str, str], float]]] = defaultdict(list)
        for row in rows:
            group, topic, partition = row.labels
            found = self._progress.lag_of(group, topic, int(partition)) if row.lag else None
            if not row.lag:
                timed[group].append((row.labels, 0.0))
            elif found is not None and found.seconds is not None:
                timed[group].append((row.labels, round(found.seconds, 3)))
        shown = [pair for pairs in timed.values() for pair in _largest(pairs, self._details, itemgetter(1))]
        labels = self._timed.of([labels for labels, _ in shown])
        families.add_all("kbroker_group_lag_seconds", labels, [seconds for _, seconds in shown])

    def _lag_rows(self, families: Families, groups: Sequence[GroupSummary], rows: Sequence["Row"]) -> None:
        """Sums and minima over the partitions of each group whose lag is known."""
        sizes: Counter[str] = Counter()
        cached: dict[str, float] = {}
        for row in rows:
            group, topic, partition = row.labels
            found = self._progress.lag_of(group, topic, int(partition)) if row.lag else None
            if found is not None:
                sizes[group] += found.size
                if found.cache_s is not None:
                    cached[group] = min(found.cache_s, cached.get(group, inf))
        catch_up = self._progress.catch_up_s()
        for group_id in sorted(group.group_id for group in groups if group.group_id in catch_up)[
            : self._most
        ]:
            families.add("kbroker_group_lag_bytes", (group_id,), sizes[group_id])
            families.add("kbroker_group_cache_seconds", (group_id,), cached.get(group_id, inf))
            families.add("kbroker_group_catch_up_seconds", (group_id,), catch_up[group_id])

    def _kafka_states(self, families: Families, states: "Counter[tuple[str, str]]") -> None:
        for name, state in GROUP_STATES.items():
            count = sum(n for (kind, at), n in states.items() if kind == CLASSIC and state in ("", at))
            families.add(GROUPS + name, (), count)
        kinds = Counter({CLASSIC: 0, "consumer": 0})
        for (kind, _), count in states.items():
            kinds[kind] += count
        for kind, count in kinds.items():
            families.add("kafka_server_group_coordinator_metrics_group_count", (kind,), count)


@dataclass(frozen=True, slots=True)
class Row:
    """A partition that counts for a group. offset: committed; None if none is. lag: None if the
    partition does not exist."""

    labels: tuple[str, str, str]
    offset: int | None
    lag: int | None


def _lags(
    groups: Sequence[GroupSummary], ranges: LogRanges, most: int
) -> tuple[list[Row], int, dict[tuple[str, str], list[int]]]:
    """A row for each partition of each group, and of those without a commit at most `most`; the
    number of the others; and (sum of offsets, sum of lags) by group and topic."""
    rows = []
    sums: dict[tuple[str, str], list[int]] = {}
    left_out = 0
    for group in groups:
        for topic, topic_lag in ranges.topic_lags(group).items():
            offsets = group.offsets.get(topic, NO_OFFSETS)
            for partition, offset in sorted(offsets.items()):
                lag = ranges.lag(topic, partition, offset)
                rows.append(Row((group.group_id, topic, str(partition)), offset, lag))
            sums[group.group_id, topic] = [sum(offsets.values()), topic_lag]
        found = list(islice(ranges.uncommitted(group), most))
        most -= len(found)
        left_out += ranges.uncommitted_count(group) - len(found)
        rows += [Row((group.group_id, topic, str(partition)), None, lag) for topic, partition, lag in found]
    return rows, left_out, sums


def _largest(items: Sequence[T], most: int, size: Callable[[T], float]) -> list[T]:
    """The rows with the largest lag, at most `most`, in their original order."""
    if len(items) <= most:
        return list(items)
    chosen = heapq.nlargest(most, range(len(items)), key=lambda number: size(items[number]))
    return [items[number] for number in sorted(chosen)]
