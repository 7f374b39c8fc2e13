"""Samples of groups: members, committed offsets, lag."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import inf
from operator import itemgetter

from msgspec import Struct

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.http.group_lags import NO_OFFSETS, SHARE_KIND, LogRanges, Uncommitted
from kbroker.http.group_progress import GroupProgress
from kbroker.http.series import KeptLabels
from kbroker.http.shown_rows import ShownRows, largest
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
EMPTY, UNKNOWN = -0.5, -1.0
"""Sizes of rows that have series last: an empty partition without a committed offset, and one that
does not exist."""
Labels = tuple[str, str, str]
"""Labels: group, topic, partition."""


class GroupRows:
    """Runs in: http. At most `max_rows` groups and as many of their partitions get series, those
    with the largest lag; a shown one stays unless another one has a clearly larger lag. details:
    the maximum of the partitions of a group that have a lag in seconds."""

    def __init__(self, shared: Shared, max_rows: int, details: int, progress: GroupProgress) -> None:
        self._shared = shared
        self._progress = progress
        self._details = details
        self._max_rows = max_rows
        self._shown: ShownRows[Labels] = ShownRows(max_rows)
        self._shown_groups: ShownRows[str] = ShownRows(max_rows)
        self._shown_sums: ShownRows[tuple[str, str]] = ShownRows(max_rows)
        self._shown_letters: ShownRows[tuple[str, str]] = ShownRows(max_rows)
        self._shown_seconds: frozenset[Labels] = frozenset()
        self._labels, self._known, self._sums, self._groups = (KeptLabels() for _ in range(4))
        self._timed, self._letters, self._cold = (KeptLabels() for _ in range(3))

    def add(self, families: Families, directory: Directory, groups: Iterable[GroupSummary]) -> None:
        """All groups."""
        groups = list(groups)
        states = Counter({(kind, state): 0 for kind, names in STATES.items() for state in names})
        states.update((group.kind, group.state) for group in groups)
        for (kind, state), count in states.items():
            families.add("kbroker_groups", (kind, state), count)
        ranges = LogRanges(self._shared, directory)
        rows, left_out, sums = _lags(groups, ranges, self._max_rows, self._shown.keys)
        shown_groups = self._without_partitions(families, groups, sums)
        shown = self._shown.of(rows, lambda row: row.labels, _size, lambda row: row.labels[0])
        families.add("kbroker_group_partitions_left_out", (), left_out + len(rows) - len(shown))
        committed = [row for row in shown if row.offset is not None]
        labels = self._labels.of([row.labels for row in committed])
        families.add_all("kbroker_group_offset", labels, [row.offset or 0 for row in committed])
        with_lag = [row for row in shown if row.lag is not None]
        known = self._known.of([row.labels for row in with_lag])
        lags = [row.lag or 0 for row in with_lag]
        families.add_all("kbroker_group_lag", known, lags)
        self._dead_letters(families, groups)
        idle = {group.group_id for group in groups if not group.members}
        self._seconds(families, [row for row in with_lag if _is_read(row, idle)])
        self._lag_rows(families, shown_groups, rows)
        if families.kafka:
            self._kafka_states(families, states)

    def _without_partitions(
        self, families: Families, groups: Sequence[GroupSummary], sums: Mapping[tuple[str, str], list[int]]
    ) -> list[str]:
        """Returns the ids of the shown groups."""
        lags: Counter[str] = Counter()
        for (group_id, _), (_, lag) in sums.items():
            lags[group_id] += lag
        shown = self._shown_groups.of(
            groups, lambda group: group.group_id, lambda group: lags[group.group_id]
        )
        families.add("kbroker_groups_left_out", (), len(groups) - len(shown))
        labels = self._groups.of([(group.group_id,) for group in shown])
        families.add_all("kbroker_group_members", labels, [group.members for group in shown])
        families.add_all("kbroker_group_lag_sum", labels, [lags[group.group_id] for group in shown])
        cold = self._progress.cold_bytes()
        behind = [group.group_id for group in shown if group.group_id in cold]
        families.add_all(
            "kbroker_group_cold_bytes_total",
            self._cold.of([(group,) for group in behind]),
            [cold[group] for group in behind],
        )
        if families.kafka:
            sharing = {group.group_id for group in groups if group.kind == SHARE_KIND}
            committing = [pair for pair in sums.items() if pair[0][0] not in sharing]
            pairs = self._shown_sums.of(committing, itemgetter(0), lambda pair: pair[1][1])
            by_topic = self._sums.of([pair for pair, _ in pairs])
            families.add_all(OF_GROUP + "current_offset_sum", by_topic, [offset for _, (offset, _) in pairs])
            families.add_all(OF_GROUP + "lag_sum", by_topic, [lag for _, (_, lag) in pairs])
        return [group.group_id for group in shown]

    def _dead_letters(self, families: Families, groups: Iterable[GroupSummary]) -> None:
        pairs = [
            ((group.group_id, topic), count)
            for group in groups
            for topic, count in group.dead_letters.items()
        ]
        shown = self._shown_letters.of(pairs, itemgetter(0), itemgetter(1))
        labels = self._letters.of([pair for pair, _ in shown])
        families.add_all("kbroker_group_dead_letters_total", labels, [count for _, count in shown])

    def _seconds(self, families: Families, rows: Sequence["Row"]) -> None:
        timed: defaultdict[str, list[tuple[Labels, float]]] = defaultdict(list)
        for row in rows:
            group, topic, partition = row.labels
            found = self._progress.lag_of(group, topic, int(partition)) if row.lag else None
            if not row.lag:
                timed[group].append((row.labels, 0.0))
            elif found is not None and found.seconds is not None:
                timed[group].append((row.labels, round(found.seconds, 3)))
        shown = [
            pair
            for pairs in timed.values()
            for pair in largest(pairs, self._details, self._shown_seconds, itemgetter(0), itemgetter(1))
        ]
        self._shown_seconds = frozenset(labels for labels, _ in shown)
        labels = self._timed.of([labels for labels, _ in shown])
        families.add_all("kbroker_group_lag_seconds", labels, [seconds for _, seconds in shown])

    def _lag_rows(self, families: Families, shown_groups: Sequence[str], rows: Sequence["Row"]) -> None:
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
        for group_id in shown_groups:
            if group_id not in catch_up:
                continue
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


class Row(Struct, frozen=True):
    """A partition that counts for a group. offset: committed; None if none is. lag: None if the
    partition does not exist."""

    labels: Labels
    offset: int | None
    lag: int | None


def _labels(found: Uncommitted) -> Labels:
    return found.group.group_id, found.topic, str(found.partition)


def _is_read(row: Row, idle: AbstractSet[str]) -> bool:
    """Whether a member reads the partition, or has read it: otherwise no member waits for its
    records."""
    return row.offset is not None or row.labels[0] not in idle


def _size(row: Row) -> float:
    if row.lag:
        return row.lag
    return UNKNOWN if row.lag is None else EMPTY if row.offset is None else 0


def _lags(
    groups: Sequence[GroupSummary], ranges: LogRanges, max_rows: int, shown: AbstractSet[Labels]
) -> tuple[list[Row], int, dict[tuple[str, str], list[int]]]:
    """A row for each of the `max_rows` partitions with the largest lag that a group has never
    committed, and for those of them that are shown; for each partition of each group with a commit;
    the number of the others; and (sum of offsets, sum of lags) by group and topic.

    Of equal lags, the partitions of a group without a commit go first: they are the more suspicious
    ones."""
    rows = []
    sums: dict[tuple[str, str], list[int]] = {}
    for group in groups:
        for topic, topic_lag in ranges.topic_lags(group).items():
            offsets = group.offsets.get(topic, NO_OFFSETS)
            for partition, offset in sorted(offsets.items()):
                lag = ranges.lag(topic, partition, offset)
                rows.append(Row((group.group_id, topic, str(partition)), offset, lag))
            sums[group.group_id, topic] = [sum(offsets.values()), topic_lag]
    found, left_out = ranges.uncommitted(groups, max_rows)
    without = [Row(_labels(each), None, each.lag) for each in found]
    if left_out:
        kept = _kept(groups, ranges, shown - {row.labels for row in (*rows, *without)})
        without += kept
        left_out -= len(kept)
    return sorted(without, key=lambda row: row.labels) + rows, left_out, sums


def _kept(groups: Sequence[GroupSummary], ranges: LogRanges, shown: AbstractSet[Labels]) -> list[Row]:
    """Rows of shown partitions without a committed offset, which count from their log start."""
    by_id = {group.group_id: group for group in groups}
    rows = []
    for labels in shown:
        group_id, topic, partition = labels
        if (group := by_id.get(group_id)) is None:
            continue
        lag = ranges.lag_without_commit(group, topic, int(partition))
        if lag is not None:
            rows.append(Row(labels, None, lag))
    return rows
