"""Checks before the offsets of a share group are changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kbroker.control.coordinator.machine import Outcome
from kbroker.control.groups.service import GroupService
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.errors import ErrorCode, KafkaError

NO_PARTITION = "This server does not host this topic-partition."


@asynccontextmanager
async def empty_share_group(
    groups: GroupService, group_id: str, create: bool = False
) -> AsyncIterator[ShareGroup]:
    """The group, which no member joins meanwhile: it would use states that are changed or deleted.
    create: use a new group, not stored yet, if it does not exist.

    Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    table = groups.read(group_id).table
    with table.closed_to_members(group_id):
        await groups.run(group_id, lambda _: Outcome())  # a member that has just joined is stored now
        if create and group_id not in table.groups:
            group = ShareGroup(group_id)
        else:
            group = table.of_type(group_id, ShareGroup)
        if not group.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
        yield group
