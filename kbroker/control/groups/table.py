"""All groups of this broker, and the objects that all operations on them share."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kbroker.control.coordinator.machine import Timers
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_store import OffsetStore
from kbroker.control.groups.settings import GroupOverrides, GroupSettings
from kbroker.control.groups.share_group.member import Shared
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.errors import ErrorCode, KafkaError

G = TypeVar("G", bound=Group)


class GroupTable:
    """Runs in: control. Owner: the GroupShard. Only the operations read and change it.

    initialize_states(group id, group epoch, topics): writes the share states of partitions and then
    runs the shard's `states_initialized`; set by the share coordinator.
    """

    __slots__ = (
        "_closed",
        "completed_rebalances",
        "groups",
        "initialize_states",
        "offsets",
        "overrides",
        "settings",
        "timers",
        "topics",
    )

    def __init__(self, settings: GroupSettings, timers: Timers, topics: TopicView) -> None:
        self.settings = settings
        self.timers = timers
        self.topics = topics
        self.overrides = GroupOverrides()
        self.offsets = OffsetStore()
        self.groups: dict[str, Group] = {}
        self.completed_rebalances = 0
        self._closed: Counter[str] = Counter()
        self.initialize_states: Callable[[str, int, Shared], None] = lambda _, __, ___: None

    @contextmanager
    def closed_to_members(self, group_id: str) -> Iterator[None]:
        """No member joins the group in between."""
        self._closed[group_id] += 1
        try:
            yield
        finally:
            self._closed[group_id] -= 1
            if not self._closed[group_id]:
                del self._closed[group_id]

    def check_open(self, group_id: str) -> None:
        """Before a member joins. Raises COORDINATOR_LOAD_IN_PROGRESS: clients repeat the
        request."""
        if group_id in self._closed:
            text = f"The states of group {group_id} are being changed."
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, text)

    def group(self, group_id: str) -> Group:
        """A group of any type. Raises GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def of_type(self, group_id: str, kind: type[G]) -> G:
        """A group of one type. Raises GROUP_ID_NOT_FOUND."""
        group = self.group(group_id)
        if not isinstance(group, kind):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.TYPE} group.")
        return group

    def classic(self, group_id: str) -> ClassicGroup | None:
        """A classic group, None when there is none of that id and type."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def create_classic(self, group_id: str, now_ms: int | None) -> ClassicGroup:
        group = ClassicGroup(group_id, now_ms)
        self.groups[group_id] = group
        return group
