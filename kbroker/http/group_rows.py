"""Samples of groups: members, committed offsets, lag."""

from collections import Counter
from collections.abc import Iterable

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import GroupSummary
from kbroker.ipc.shared import Shared
from kbroker.metrics.kafka import GROUP_STATES, GROUPS

CLASSIC = "classic"
OF_GROUP = "kafka_consumergroup_"


def watermarks(shared: Shared, directory: Directory) -> dict[tuple[str, int], int]:
    """High watermark of each partition, by topic and index."""
    marks = shared.slots[directory.slots, Slot.HIGH_WATERMARK].tolist()
    names = [topic.name for topic in directory.topics]
    numbers = directory.topic_numbers.tolist()
    return {
        (names[number], partition.index): mark
        for partition, number, mark in zip(directory.partitions, numbers, marks, strict=True)
    }


class GroupRows:
    """Runs in: http."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def add(self, families: Families, directory: Directory, groups: Iterable[GroupSummary]) -> None:
        """All groups; lag counts to the high watermark, as kafka_exporter's does."""
        groups = list(groups)
        marks = watermarks(self._shared, directory)
        states = Counter((group.kind, group.state) for group in groups)
        for (kind, state), count in states.items():
            families.add("kbroker_groups", (kind, state), count)
        for group in groups:
            families.add("kbroker_group_members", (group.group_id,), group.members)
            if families.kafka:
                families.add(OF_GROUP + "members", (group.group_id,), group.members)
            for topic, offsets in group.offsets.items():
                self._topic(families, group.group_id, topic, offsets, marks)
        if families.kafka:
            self._kafka_states(families, states)

    def _topic(
        self,
        families: Families,
        group: str,
        topic: str,
        offsets: dict[int, int],
        watermarks: dict[tuple[str, int], int],
    ) -> None:
        offset_sum = lag_sum = 0
        for partition, offset in sorted(offsets.items()):
            labels = (group, topic, str(partition))
            families.add("kbroker_group_offset", labels, offset)
            if families.kafka:
                families.add(OF_GROUP + "current_offset", labels, offset)
            offset_sum += offset
            mark = watermarks.get((topic, partition))
            if mark is None:
                continue
            lag = max(0, mark - offset)
            lag_sum += lag
            families.add("kbroker_group_lag", labels, lag)
            if families.kafka:
                families.add(OF_GROUP + "lag", labels, lag)
        if families.kafka:
            families.add(OF_GROUP + "current_offset_sum", (group, topic), offset_sum)
            families.add(OF_GROUP + "lag_sum", (group, topic), lag_sum)

    def _kafka_states(self, families: Families, states: "Counter[tuple[str, str]]") -> None:
        for name, state in GROUP_STATES.items():
            count = sum(n for (kind, at), n in states.items() if kind == CLASSIC and state in ("", at))
            families.add(GROUPS + name, (), count)
        kinds = Counter({CLASSIC: 0, "consumer": 0})
        for (kind, _), count in states.items():
            kinds[kind] += count
        for kind, count in kinds.items():
            families.add("kafka_server_group_coordinator_metrics_group_count", (kind,), count)
