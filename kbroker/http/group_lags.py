"""Lag of groups from shared memory, for /metrics and the console; see `metrics/group_lag.py` for
what counts."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from kbroker.http.directory import Directory
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from kbroker.ipc.shared import Shared
from kbroker.metrics.group_lag import record_lag, whole_topics

SHARE_KIND = "share"
NONE: Mapping[int, tuple[int, int]] = {}
NO_OFFSETS: Mapping[int, int] = {}


class Uncommitted(NamedTuple):
    """A partition that counts for a group without a committed offset."""

    group: GroupSummary
    topic: str
    partition: int
    lag: int


class LogRanges:
    """Log start offset and high watermark of each partition, at one time."""

    def __init__(self, shared: Shared, directory: Directory) -> None:
        slots = shared.slots[directory.slots]
        starts, ends = slots[:, Slot.LOG_START].tolist(), slots[:, Slot.HIGH_WATERMARK].tolist()
        names = [topic.name for topic in directory.topics]
        self._topics: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in names}
        self._records = dict.fromkeys(names, 0)
        self._longest: dict[str, list[tuple[int, int]]] = {}
        numbers = directory.topic_numbers.tolist()
        for partition, number, start, end in zip(directory.partitions, numbers, starts, ends, strict=True):
            self._topics[names[number]][partition.index] = start, end
            self._records[names[number]] += record_lag(None, start, end)

    def partitions(self, topic: str) -> Collection[int]:
        """Partitions of a topic; none if it does not exist."""
        return self._topics.get(topic, NONE).keys()

    def end(self, topic: str, partition: int) -> int | None:
        """High watermark; None if the partition does not exist."""
        found = self._topics.get(topic, NONE).get(partition)
        return None if found is None else found[1]

    def lag(self, topic: str, partition: int, committed: int | None) -> int | None:
        """Lag of a group in a partition; None if the partition does not exist."""
        found = self._topics.get(topic, NONE).get(partition)
        return None if found is None else record_lag(committed, *found)

    def start(self, topic: str, partition: int) -> int:
        """Log start offset of an existing partition."""
        return self._topics[topic][partition][0]

    def uncommitted(self, groups: Sequence[GroupSummary], max_rows: int) -> tuple[list[Uncommitted], int]:
        """Partitions that count without a committed offset, at most `max_rows`, and the number of
        the others. Those with the largest lag; of equal lags, each group has one before a group has
        a second one."""
        total = 0
        sources = []
        for number, group in enumerate(groups):
            of_topics = []
            for topic in sorted(_whole(group)):
                if count := self._uncommitted_count(group, topic):
                    total += count
                    of_topics.append(self._uncommitted(group, topic))
            if of_topics:
                sources.append(_in_turns(number, of_topics))
        rows = [
            Uncommitted(groups[number], topic, partition, -below)
            for below, _, number, topic, partition in islice(heapq.merge(*sources), max_rows)
        ]
        return rows, total - len(rows)

    def _uncommitted(self, group: GroupSummary, topic: str) -> Iterator[tuple[int, str, int]]:
        """(-lag, topic, partition), ascending."""
        offsets = group.offsets.get(topic, NO_OFFSETS)
        for lag, partition in self._by_records(topic):
            if partition not in offsets:
                yield -lag, topic, partition

    def _by_records(self, topic: str) -> list[tuple[int, int]]:
        """(records, partition) of a topic, the partition with the most records first."""
        found = self._longest.get(topic)
        if found is None:
            ranges = self._topics.get(topic, NONE).items()
            rows = [(record_lag(None, *each), partition) for partition, each in ranges]
            found = self._longest[topic] = sorted(rows, key=lambda row: (-row[0], row[1]))
        return found

    def lag_without_commit(self, group: GroupSummary, topic: str, partition: int) -> int | None:
        """Lag of a partition that counts without a committed offset; None if it does not count, or
        has an offset."""
        if topic not in _whole(group) or partition in group.offsets.get(topic, NO_OFFSETS):
            return None
        return self.lag(topic, partition, None)

    def positions(
        self, groups: Sequence[GroupSummary], max_rows: int
    ) -> Iterator[tuple[GroupSummary, str, int, int | None]]:
        """(group, topic, partition, committed offset) of the existing partitions that count; of
        those without an offset at most `max_rows`, those with the largest lag."""
        for group in groups:
            for topic, offsets in group.offsets.items():
                for partition, offset in offsets.items():
                    if partition in self._topics.get(topic, NONE):
                        yield group, topic, partition, offset
        for row in self.uncommitted(groups, max_rows)[0]:
            yield row.group, row.topic, row.partition, None

    def _uncommitted_count(self, group: GroupSummary, topic: str) -> int:
        known, offsets = self._topics.get(topic, NONE), group.offsets.get(topic, NO_OFFSETS)
        return len(known) - sum(partition in known for partition in offsets)

    def topic_lags(self, group: GroupSummary) -> dict[str, int]:
        """Lag of a group by topic, for the topics that count, sorted; in time for the committed
        offsets alone. Of a share group, control has counted it."""
        if group.kind == SHARE_KIND:
            return dict(sorted(group.share_lags.items()))
        whole = _whole(group)
        return {topic: self._topic_lag(group, topic, topic in whole) for topic in topics_of(group)}

    def group_lag(self, group: GroupSummary) -> int | None:
        """Lag of a group; None if none of its partitions exists."""
        lags = self.lag_of_topics(group).values()
        return sum(lags) if lags else None

    def lag_of_topics(self, group: GroupSummary) -> dict[str, int]:
        """As `topic_lags`, of existing topics."""
        return {topic: lag for topic, lag in self.topic_lags(group).items() if topic in self._topics}

    def _topic_lag(self, group: GroupSummary, topic: str, whole: bool) -> int:
        known, offsets = self._topics.get(topic, NONE), group.offsets.get(topic, NO_OFFSETS)
        total = self._records.get(topic, 0) if whole else 0
        for partition, offset in offsets.items():
            if (found := known.get(partition)) is not None:
                total += record_lag(offset, *found) - (record_lag(None, *found) if whole else 0)
        return total


def _in_turns(
    number: int, of_topics: Iterable[Iterator[tuple[int, str, int]]]
) -> Iterator[tuple[int, int, int, str, int]]:
    """(-lag, place among the partitions of the group, number of the group, topic, partition),
    ascending."""
    for turn, (below, topic, partition) in enumerate(heapq.merge(*of_topics)):
        yield below, turn, number, topic, partition


def topics_of(group: GroupSummary) -> list[str]:
    """Topics that count, sorted."""
    return sorted({*group.offsets, *_whole(group)})


def topics_read(group: GroupSummary) -> list[str]:
    """Topics with a committed offset or a member, sorted; also those of a share group, which
    commits none."""
    return sorted({*group.offsets, *group.subscribed})


def _whole(group: GroupSummary) -> frozenset[str]:
    """Topics of which all partitions count."""
    if group.kind == SHARE_KIND:
        return frozenset()
    return whole_topics(group.offsets, group.subscribed, group.members)
