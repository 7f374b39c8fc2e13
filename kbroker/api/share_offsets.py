"""What must hold before the offsets of a share group are changed."""

from kbroker.control.groups.service import GroupService
from kbroker.control.groups.share_group.heartbeat import not_a_share_group
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.protocol.errors import ErrorCode, KafkaError


def empty_share_group(groups: GroupService, group_id: str) -> ShareGroup:
    """The group. Raises GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP."""
    group = groups.read(group_id).table.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        raise not_a_share_group(group_id, group is not None)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    return group
