"""All groups of this broker and what every operation on them shares."""

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_store import OffsetStore
from kbroker.control.groups.settings import GroupOverrides, GroupSettings
from kbroker.control.groups.topic_view import TopicView
from kbroker.control.machine import Timers
from kbroker.protocol.errors import ErrorCode, KafkaError


class GroupTable:
    """Runs in: control. Owner: the GroupShard. The operations read and change it; nobody else does."""

    __slots__ = ("completed_rebalances", "groups", "offsets", "overrides", "settings", "timers", "topics")

    def __init__(self, settings: GroupSettings, timers: Timers, topics: TopicView) -> None:
        self.settings = settings
        self.timers = timers
        self.topics = topics
        self.overrides = GroupOverrides()
        self.offsets = OffsetStore()
        self.groups: dict[str, Group] = {}
        self.completed_rebalances = 0

    def group(self, group_id: str) -> Group:
        """A group of any type. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """A classic group, None when there is none of that id and type."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def create_classic(self, group_id: str, now_ms: int | None) -> ClassicGroup:
        group = ClassicGroup(group_id, now_ms)
        self.groups[group_id] = group
        return group


def append_error(code: ErrorCode) -> ErrorCode:
    """What a client is told when the group's record could not be appended."""
    return _AS_SEEN_BY_CLIENTS.get(code, code)


_AS_SEEN_BY_CLIENTS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
