"""Requests to a share group's coordinator: state, members, start offsets."""

from typing import Any

from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, broker_error, check_answer
from kbroker.cli.own_requests import ask_coordinator
from kbroker.cli.partitions import Partition
from kbroker.config.counts import counted
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode


class Start(Struct, frozen=True):
    """The first unfinished record of a partition. None: unknown to the broker."""

    partition: Partition
    offset: int | None
    lag: int | None


def read_share_group(broker: Connection, name: str) -> Any:
    """Describe the group. Raises CommandFailed if it does not exist."""
    (group,) = _describe(broker, name)
    check_answer(group, f"share group {name}")
    return group


def _describe(broker: Connection, name: str) -> Any:
    from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest

    request = ShareGroupDescribeRequest([name])
    return ask_coordinator(broker, name, ApiKey.SHARE_GROUP_DESCRIBE, request).groups


def refuse_members(broker: Connection, name: str) -> None:
    """Check that the group has no members. A new group is allowed: its offsets are set before it
    begins. Raises CommandFailed."""
    (group,) = _describe(broker, name)
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND.value:
        return
    check_answer(group, f"share group {name}")
    if group.members:
        raise CommandFailed(
            f"share group {name} is {group.group_state} with {counted(len(group.members), 'member')}: "
            "stop its consumers first "
            "(offsets can only be reset while a group has no members)"
        )


def start_offsets(broker: Connection, name: str, failures: list[CommandFailed] | None = None) -> list[Start]:
    """failures: gets those of single partitions, such as one whose log is offline; without it the
    first one is raised. Raises CommandFailed."""
    from kbroker.protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(name, None)])
    (group,) = ask_coordinator(broker, name, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request).groups
    check_answer(group, f"share group {name}")
    found = []
    for topic in group.topics:
        for part in topic.partitions:
            place = topic.topic_name, part.partition_index
            try:
                check_answer(part, f"{place[0]}-{place[1]}")
            except CommandFailed as failure:
                if failures is None:
                    raise
                failures.append(failure)
                found.append(Start(place, None, None))
                continue
            offset, lag = (None if value < 0 else value for value in (part.start_offset, part.lag))
            found.append(Start(place, offset, lag))
    return sorted(found, key=lambda start: start.partition)


def alter_start_offsets(
    broker: Connection, name: str, offsets: dict[Partition, int]
) -> dict[Partition, CommandFailed]:
    """Returns the partitions that are refused. Raises CommandFailed for the whole group."""
    from kbroker.protocol.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, []).append(AlterShareGroupOffsetsRequestPartition(number, offset))
    request = AlterShareGroupOffsetsRequest(
        name, [AlterShareGroupOffsetsRequestTopic(*each) for each in topics.items()]
    )
    answer = ask_coordinator(broker, name, ApiKey.ALTER_SHARE_GROUP_OFFSETS, request)
    check_answer(answer, f"share group {name}")
    return {
        (each.topic_name, part.partition_index): broker_error(
            part.error_code, part.error_message, f"{each.topic_name}-{part.partition_index}"
        )
        for each in answer.responses
        for part in each.partitions
        if part.error_code
    }
