"""Lag of groups from shared memory, for /metrics and the console; see `metrics/group_lag.py` for
what counts."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from kbroker.http.directory import Directory
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from kbroker.ipc.shared import Shared
from kbroker.metrics.group_lag import records_behind, whole_topics

NONE: Mapping[int, tuple[int, int]] = {}
NO_OFFSETS: Mapping[int, int] = {}


class LogRanges:
    """Log start offset and high watermark of each partition, at one time."""

    def __init__(self, shared: Shared, directory: Directory) -> None:
        slots = shared.slots[directory.slots]
        starts, ends = slots[:, Slot.LOG_START].tolist(), slots[:, Slot.HIGH_WATERMARK].tolist()
        names = [topic.name for topic in directory.topics]
        self._topics: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in names}
        self._records = dict.fromkeys(names, 0)
        numbers = directory.topic_numbers.tolist()
        for partition, number, start, end in zip(directory.partitions, numbers, starts, ends, strict=True):
            self._topics[names[number]][partition.index] = start, end
            self._records[names[number]] += records_behind(None, start, end)

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
        return None if found is None else records_behind(committed, *found)

    def start(self, topic: str, partition: int) -> int:
        """Log start offset of an existing partition."""
        return self._topics[topic][partition][0]

    def positions(self, group: GroupSummary, most: int) -> Iterator[tuple[str, int, int | None]]:
        """(topic, partition, committed offset) of the existing partitions that count; at most
        `most` of those without an offset."""
        for topic, offsets in group.offsets.items():
            for partition, offset in offsets.items():
                if partition in self._topics.get(topic, NONE):
                    yield topic, partition, offset
        for topic, partition, _ in islice(self.uncommitted(group), most):
            yield topic, partition, None

    def uncommitted(self, group: GroupSummary) -> Iterator[tuple[str, int, int]]:
        """(topic, partition, lag) of the partitions that count without a committed offset."""
        for topic in sorted(_whole(group)):
            offsets = group.offsets.get(topic, NO_OFFSETS)
            for partition, found in self._topics.get(topic, NONE).items():
                if partition not in offsets:
                    yield topic, partition, records_behind(None, *found)

    def uncommitted_count(self, group: GroupSummary) -> int:
        """Number of the partitions that count without a committed offset."""
        return sum(
            len(self._topics.get(topic, NONE)) - self._existing(topic, group.offsets.get(topic, NO_OFFSETS))
            for topic in _whole(group)
        )

    def topic_lags(self, group: GroupSummary) -> dict[str, int]:
        """Lag of a group by topic, for the topics that count, sorted; in time for the committed
        offsets alone."""
        whole = _whole(group)
        return {topic: self._topic_lag(group, topic, topic in whole) for topic in topics_of(group)}

    def group_lag(self, group: GroupSummary) -> int | None:
        """Lag of a group; None if none of its partitions exists."""
        lags = [lag for topic, lag in self.topic_lags(group).items() if topic in self._topics]
        return sum(lags) if lags else None

    def _topic_lag(self, group: GroupSummary, topic: str, whole: bool) -> int:
        known, offsets = self._topics.get(topic, NONE), group.offsets.get(topic, NO_OFFSETS)
        total = self._records.get(topic, 0) if whole else 0
        for partition, offset in offsets.items():
            if (found := known.get(partition)) is not None:
                total += records_behind(offset, *found) - (records_behind(None, *found) if whole else 0)
        return total

    def _existing(self, topic: str, offsets: Mapping[int, int]) -> int:
        known = self._topics.get(topic, NONE)
        return sum(partition in known for partition in offsets)


def topics_of(group: GroupSummary) -> list[str]:
    """Topics that count, sorted."""
    return sorted({*group.offsets, *_whole(group)})


def _whole(group: GroupSummary) -> frozenset[str]:
    """Topics of which all partitions count."""
    return whole_topics(group.offsets, group.subscribed, group.members)
