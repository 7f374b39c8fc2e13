"""All groups of this broker, and the objects that all operations on them share."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from kbroker.control.coordinator.machine import Timers
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.group import Group
from kbroker.control.groups.offset_store import OffsetStore
from kbroker.control.groups.settings import GroupOverrides, GroupSettings
from kbroker.control.groups.share_group.member import Shared
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.errors import ErrorCode, KafkaError

G = TypeVar("G", bound=Group)
MAX_PENDING: Final = 50_000
MAX_PENDING_CHARACTERS: Final = 16 << 20
"""Maximum of the ids of pending members. A client joins with its id within milliseconds."""
LARGE_BYTES: Final = 8 << 10
MAX_LARGE_BYTES: Final = 256 << 20
"""Maximum of the metadata of members that have more than LARGE_BYTES each."""
SWEEP_MS: Final = 1000
"""Time between two searches for members that have left, in ms."""


class PendingMembers:
    """Members that have been given an id and have not joined with it (KIP-394), of all groups; some
    of them have joined or gone since. Runs in: control. Owner: the GroupTable.

    A client may ask for very many ids, each as long as its client id, and none expires before a
    session that may last for half an hour."""

    __slots__ = ("_characters", "_ids")

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], None] = {}
        self._characters = 0

    def add(self, group_id: str, member_id: str) -> Iterator[tuple[str, str]]:
        """Add a member; the oldest ones that are too many are removed."""
        self._ids[group_id, member_id] = None
        self._characters += len(group_id) + len(member_id)
        while len(self._ids) > MAX_PENDING or self._characters > MAX_PENDING_CHARACTERS:
            oldest = next(iter(self._ids))
            del self._ids[oldest]
            self._characters -= sum(map(len, oldest))
            yield oldest


class LargeMembers:
    """Members of classic groups with much metadata, which is kept as long as their sessions last,
    up to half an hour. Runs in: control. Owner: the GroupTable. is_member: by group and member
    id."""

    __slots__ = ("_bytes", "_is_member", "_sizes", "_swept_ms")

    def __init__(self, is_member: Callable[[str, str], bool]) -> None:
        self._is_member = is_member
        self._sizes: dict[tuple[str, str], int] = {}
        self._bytes = 0
        self._swept_ms = -SWEEP_MS

    def have_room(self, group_id: str, member_id: str, size: int, now_ms: int) -> bool:
        """Whether a member may have so many bytes, beside those of all other members."""
        if size <= LARGE_BYTES:
            return True
        more = size - self._sizes.get((group_id, member_id), 0)
        if self._bytes + more > MAX_LARGE_BYTES and abs(now_ms - self._swept_ms) >= SWEEP_MS:
            self._swept_ms = now_ms
            self._sizes = {key: held for key, held in self._sizes.items() if self._is_member(*key)}
            self._bytes = sum(self._sizes.values())
        return self._bytes + more <= MAX_LARGE_BYTES

    def note(self, group_id: str, member_id: str, size: int) -> None:
        """A member has joined with so many bytes."""
        self._bytes -= self._sizes.pop((group_id, member_id), 0)
        if size > LARGE_BYTES:
            self._sizes[group_id, member_id] = size
            self._bytes += size


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
        "large",
        "offsets",
        "overrides",
        "pending",
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
        self.pending = PendingMembers()
        self.large = LargeMembers(self._is_member)
        self.completed_rebalances = 0
        self._closed: Counter[str] = Counter()
        self.initialize_states: Callable[[str, int, Shared], None] = lambda _, __, ___: None

    @contextmanager
    def closed_to_members(self, group_id: str) -> Iterator[None]:
        """A block in which no member joins the group."""
        self._closed[group_id] += 1
        try:
            yield
        finally:
            self._closed[group_id] -= 1
            if not self._closed[group_id]:
                del self._closed[group_id]

    def check_open(self, group_id: str) -> None:
        """Check before a member joins. Raises COORDINATOR_LOAD_IN_PROGRESS, after which clients
        repeat the request."""
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

    def _is_member(self, group_id: str, member_id: str) -> bool:
        group = self.classic(group_id)
        return group is not None and member_id in group.members

    def create_classic(self, group_id: str, now_ms: int | None) -> ClassicGroup:
        group = ClassicGroup(group_id, now_ms)
        self.groups[group_id] = group
        return group
