"""Checks before the offsets of a share group are changed."""

from kbroker.control.groups.service import GroupService
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.errors import ErrorCode, KafkaError

NO_PARTITION = "This server does not host this topic-partition."


def empty_share_group(groups: GroupService, group_id: str, create: bool = False) -> ShareGroup:
    """The group. create: use a new group, not stored yet, if it does not exist.

    Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    table = groups.read(group_id).table
    if create and group_id not in table.groups:
        return ShareGroup(group_id)
    group = table.of_type(group_id, ShareGroup)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    return group
