"""Moves committed offsets of groups exactly: to the target's offset of the next record to read."""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct, field

from kbroker.cli.connection import Connection
from kbroker.cli.failures import broker_error
from kbroker.cli.group_description import Group, read_group
from kbroker.cli.mirror.comparing import Reading
from kbroker.cli.own_requests import GroupCoordinators
from kbroker.cli.partitions import Partition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LAST_BY_NAME = 9
"""The last version of OffsetCommit that names topics."""


class GroupOffsets(Struct):
    """Groups of the source by name. translated: (group, partition) -> the target's offset. moved:
    groups that have these offsets at the target."""

    groups: dict[str, Group] = field(default_factory=dict)
    translated: dict[tuple[str, Partition], int] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, source: Connection, names: Iterable[str]) -> "GroupOffsets":
        """Read the present committed offsets of the groups. Raises CommandFailed."""
        admin = source.admin()
        return cls({name: group for name in names if (group := read_group(source, admin, name)).offsets})

    def translate(self, partition: Partition, source: Reading, target: Reading) -> None:
        """Translate the offsets of all groups in a partition whose records are equal on both
        sides."""
        for name, group in self.groups.items():
            if (offset := group.offsets.get(partition)) is not None:
                self.translated[name, partition] = translate(offset, source, target)

    @property
    def active(self) -> list[str]:
        """Groups that have members at the source: their offsets will continue there."""
        return sorted(name for name, group in self.groups.items() if group.active)

    def commit(self, target: Connection) -> list[str]:
        """Commit the offsets of groups without members at the target; returns remarks about the
        others. Raises CommandFailed."""
        admin = target.admin()
        remarks = []
        with GroupCoordinators(target) as coordinators:
            for name, group in self.groups.items():
                new_offsets = {p: offset for (of, p), offset in self.translated.items() if of == name}
                if not new_offsets:
                    continue
                there = read_group(target, admin, name)
                holds = _holds(there.offsets, new_offsets)
                if there.active and not holds:
                    remarks.append(
                        f"group {name} already has members at the target: its offsets stay unchanged"
                    )
                    continue
                if not holds:
                    _commit(coordinators, group, new_offsets)
                self.moved.append(name)
        return remarks


def _commit(coordinators: GroupCoordinators, group: Group, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets with their metadata, in which Kafka Streams keeps times. librdkafka would add
    a zero byte to these texts. Raises CommandFailed."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, number), offset in sorted(offsets.items()):
        text = group.metadata.get((topic, number), "")
        topics.setdefault(topic, OffsetCommitRequestTopic(topic)).partitions.append(
            OffsetCommitRequestPartition(number, offset, -1, text)
        )
    request = OffsetCommitRequest(group.group_id, topics=list(topics.values()))
    _, answer = coordinators.ask(group.group_id, ApiKey.OFFSET_COMMIT, request, LAST_BY_NAME)
    for topic_answer in answer.topics:
        for partition in topic_answer.partitions:
            if partition.error_code:
                place = f"{topic_answer.name}: {partition.partition_index}"
                raise broker_error(partition.error_code, None, f"{group.group_id}: {place}")


def _holds(there: Mapping[Partition, int], new_offsets: Mapping[Partition, int]) -> bool:
    return all(there.get(partition) == offset for partition, offset in new_offsets.items())


def translate(offset: int, source: Reading, target: Reading) -> int:
    """The target's offset of the source's first record at or after an offset.

    Exact if the target ends with the source's records. With repetitions or compaction it is the
    first possible offset: a group may read some records again, but never skips one."""
    place = int(np.searchsorted(source.offsets, offset))
    if place == len(source.offsets):
        return target.end
    if len(target.records) >= len(source.records):
        older = len(target.records) - len(source.records)
        if np.array_equal(target.records[older:], source.records):
            return int(target.offsets[older + place])
    there = np.flatnonzero(np.isin(source.records[place:], target.records))
    if not len(there):
        return target.end
    place += int(there[0])
    digest = source.records[place]
    earlier = int(np.count_nonzero(source.records[:place] == digest))
    same = np.flatnonzero(target.records == digest)
    return int(target.offsets[int(same[min(earlier, len(same) - 1)])])
