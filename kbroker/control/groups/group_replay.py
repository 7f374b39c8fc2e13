"""Rebuilding groups from the records of `__consumer_offsets`, and following the records of our own
appends.

A classic group lives ahead of its record: operations change it, the record makes it durable. So
after a partition has been loaded, GroupMetadata of an existing group has nothing new.
"""

from collections.abc import Callable, Set
from typing import Any

from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.rebalance import Rebalance, heartbeat_timer, join_timer, sync_timer
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from kbroker.protocol.record_types import decode_key, decode_value, record_type
from kbroker.protocol.schema import ProtocolError, Struct

OFFSET_TYPES = (0, 1)
"""Record types of committed offsets; 0 is that of brokers before 0.9."""


class GroupReplay:
    """Runs in: control. Owner: the GroupShard."""

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance
        self._loaded: set[int] = set()
        self._groups_of: dict[int, set[str]] = {}
        self._handlers: dict[type, Callable[[Any, Any], None]] = {GroupMetadataKey: self._group_metadata}
        self._when_loaded: dict[str, Callable[[Any], None]] = {}

    def handle(self, key_class: type, handler: Callable[[Any, Any], None]) -> None:
        """handler(key, value) applies records with this key."""
        self._handlers[key_class] = handler

    def when_loaded(self, group_type: str, start: Callable[[Any], None]) -> None:
        """start(group) sets the timers of a group of this type that was found in the log."""
        self._when_loaded[group_type] = start

    def groups_of(self, partition: int) -> Set[str]:
        """Groups whose records lie in the partition."""
        return self._groups_of.get(partition, frozenset())

    def replay(self, partition: int, key: bytes, value: bytes | None, producer_id: int = -1) -> None:
        """Apply one record. Raises ProtocolError when its type or version is unknown."""
        if record_type(key) in OFFSET_TYPES:
            group_id = self._table.offsets.replay(key, value, producer_id)
            if value is not None and group_id not in self._table.groups:
                self._table.create_classic(group_id, None)
        else:
            parsed = decode_key(CONSUMER_OFFSETS, key)
            group_id = getattr(parsed, "group_id", "") or getattr(parsed, "group", "")
            handler = self._handlers.get(type(parsed))
            if handler is not None and not self._is_ahead(partition, parsed, value):
                handler(parsed, decode_value(CONSUMER_OFFSETS, key, value))
        self._note(partition, group_id)

    def _note(self, partition: int, group_id: str) -> None:
        """The group's records lie in the partition, unless nothing is left of it: clients may make
        and delete groups without end."""
        groups = self._groups_of.setdefault(partition, set())
        if group_id in self._table.groups or self._table.offsets.has_group(group_id):
            groups.add(group_id)
        else:
            groups.discard(group_id)

    def _is_ahead(self, partition: int, key: Struct, value: bytes | None) -> bool:
        """Whether a classic group has written the record itself: it has nothing new, even if it
        lists many members."""
        if value is None or not isinstance(key, GroupMetadataKey):
            return False
        return partition in self._loaded and self._table.classic(key.group) is not None

    def _group_metadata(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        if value is None:
            self._remove(key.group)
            return
        self._table.groups[key.group] = _group_of(key.group, value)

    def _remove(self, group_id: str) -> None:
        group = self._table.classic(group_id)
        if group is None:
            return
        del self._table.groups[group_id]
        self._cancel_timers(group)

    def _cancel_timers(self, group: ClassicGroup) -> None:
        timers = self._table.timers
        timers.cancel(join_timer(group.group_id))
        timers.cancel(sync_timer(group.group_id))
        for member_id in (*group.members, *group.pending_join):
            timers.cancel(heartbeat_timer(group.group_id, member_id))

    def loaded(self, partition: int, now_ms: int) -> None:
        """Every record has been replayed: sessions start now."""
        self._loaded.add(partition)
        for group_id in self._groups_of.get(partition, set()):
            group = self._table.groups.get(group_id)
            if group is not None and group.TYPE in self._when_loaded:
                self._when_loaded[group.TYPE](group)
            if not isinstance(group, ClassicGroup):
                continue
            for member in group.members.values():
                self._rebalance.schedule_heartbeat(group, member)
            if len(group.members) > self._table.settings.max_size:
                # A rebalance lets the members commit before some of them are turned away.
                self._rebalance.prepare(group, "more members than group.max.size", now_ms)

    def unloaded(self, partition: int) -> None:
        """The partition is gone: so are its groups."""
        self._loaded.discard(partition)
        for group_id in self._groups_of.pop(partition, set()):
            self._table.offsets.forget_group(group_id)
            group = self._table.groups.pop(group_id, None)
            if isinstance(group, ClassicGroup):
                self._cancel_timers(group)
                for member in group.members.values():
                    code = ErrorCode.NOT_COORDINATOR
                    group.complete_join(
                        member, JoinGroupResponse(error_code=code, member_id=member.member_id)
                    )
                    group.complete_sync(member, SyncGroupResponse(error_code=code))
                group.state = ClassicState.DEAD


def _group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record describes: stable with members, else empty. Raises ProtocolError for
    a group that cannot be."""
    _check(value)
    timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
    group = ClassicGroup(
        group_id,
        timestamp_ms,
        ClassicState.STABLE if value.members else ClassicState.EMPTY,
        value.generation,
        value.protocol_type or None,
        value.protocol,
        value.leader,
    )
    for each in value.members:
        group.add(
            ClassicMember(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout,
                each.session_timeout,
                value.protocol_type,
                [(value.protocol or "", each.subscription)],
                each.assignment,
            )
        )
    if group.leader_id not in group.members:
        group.leader_id = next(iter(group.members), None)
    group.refresh_subscribed_topics()
    return group


def _check(value: GroupMetadataValue) -> None:
    if value.members and not value.protocol:
        raise ProtocolError("members without a protocol")
    instances = [each.group_instance_id for each in value.members if each.group_instance_id is not None]
    for ids in ([each.member_id for each in value.members], instances):
        if len(ids) != len(set(ids)):
            raise ProtocolError("a member that is there twice")
