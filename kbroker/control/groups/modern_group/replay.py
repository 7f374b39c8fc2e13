"""The replay of records of every modern group."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.modern_group.member import ModernMember
from kbroker.control.groups.modern_group.state import ModernGroup
from kbroker.control.groups.table import GroupTable

G = TypeVar("G", bound=ModernGroup[Any, Any])
M = TypeVar("M", bound=ModernMember)
V = TypeVar("V")


class GroupKey(Protocol):
    """The key of a record of a group."""

    group_id: str


class MemberKey(GroupKey, Protocol):
    """The key of a record of a member."""

    member_id: str


class GroupEpoch(Protocol):
    """The value of a group's metadata record."""

    epoch: int
    metadata_hash: int


class TargetEpoch(Protocol):
    """The value of a target assignment's metadata record."""

    assignment_epoch: int
    assignment_timestamp: int


class ModernReplay(Generic[G, M]):
    """Applies records to groups of one type. Runs in: control. Owner: that type's replay."""

    def __init__(self, table: GroupTable, kind: type[G], member: type[M]) -> None:
        self._table = table
        self._kind = kind
        self._member = member

    def find(self, key: GroupKey, value: object) -> G | None:
        """The group of a record. Any but a tombstone makes it, also in place of a classic one
        without members."""
        group = self._table.groups.get(key.group_id)
        if isinstance(group, self._kind):
            return group
        replaceable = group is None or (isinstance(group, ClassicGroup) and group.is_empty)
        if value is None or not replaceable:
            return None
        made = self._kind(key.group_id)
        self._table.groups[key.group_id] = made
        return made

    def group_epoch(self, key: GroupKey, value: GroupEpoch | None) -> None:
        """A group's epoch; a tombstone deletes the group."""
        group = self.find(key, value)
        if group is None:
            return
        if value is None:
            del self._table.groups[key.group_id]
            return
        group.group_epoch = value.epoch
        group.metadata_hash = value.metadata_hash

    def target_epoch(self, key: GroupKey, value: TargetEpoch | None) -> None:
        """The epoch that the target assignment was made for, and when."""
        group = self.find(key, value)
        if group is not None:
            group.assignment_epoch = -1 if value is None else value.assignment_epoch
            group.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def member(self, changed: Callable[[M, V], M], key: MemberKey, value: V | None) -> None:
        """A member's metadata; a tombstone removes the member. changed: the member with the
        metadata of the record."""
        group = self.find(key, value)
        if group is None:
            return
        if value is None:
            group.remove_member(key.member_id)
            return
        member = group.members.get(key.member_id) or self._member(key.member_id)
        group.put_member(changed(member, value))

    def assignment(
        self, changed: Callable[[M, V], M], left: Callable[[M], M], key: MemberKey, value: V | None
    ) -> None:
        """A member's current assignment. changed: the member with the assignment of the record.
        left: the member after a tombstone."""
        group = self.find(key, value)
        if group is None:
            return
        member = group.members.get(key.member_id)
        if value is not None:
            group.put_member(changed(member or self._member(key.member_id), value))
        elif member is not None:
            group.put_member(left(member))

    def target(self, key: MemberKey, assigned: object) -> None:
        """A member's target assignment; None for a tombstone."""
        group = self.find(key, assigned)
        if group is None:
            return
        if assigned is None:
            group.remove_target(key.member_id)
        else:
            group.put_target(key.member_id, assigned)
