"""Changing a group's protocol while it is in use: classic to consumer and back (KIP-848)."""

import logging
from collections.abc import Callable, Collection, Iterable

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.control.groups.classic_group import CONSUMER, ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.consumer_group import records
from kbroker.control.groups.consumer_group.member import ClassicMetadata, ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.group_records import group_metadata
from kbroker.control.groups.modern_group.partitions import Partitions, named_partitions, plain
from kbroker.control.groups.rebalance import Rebalance
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.consumer_protocol import (
    encode_assignment,
    parse_assignment,
    parse_subscription,
    version_of,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)


class Migration:
    """Runs in: control. Owner: the ConsumerGroups."""

    def __init__(self, table: GroupTable, rebalance: Rebalance) -> None:
        self._table = table
        self._rebalance = rebalance
        self.upgraded: Callable[[str, str, int], None] = _nothing
        self.downgraded: Callable[[str, str], None] = _nothing

    def group_for(self, group_id: str, create: bool, out: list[Record]) -> ConsumerGroup:
        """The group a member heartbeats to, made or converted when it may be; the table follows by
        replay.

        Raises GROUP_ID_NOT_FOUND.
        """
        group = self._table.groups.get(group_id)
        if group is None:
            if create:
                return ConsumerGroup(group_id)
            raise _not_found(f"Consumer group {group_id} not found.")
        if isinstance(group, ConsumerGroup):
            return group
        if create and isinstance(group, ClassicGroup):
            if group.is_empty:
                out += group.tombstones()
                return ConsumerGroup(group_id)
            return self._upgrade(group, out)
        return self._table.of_type(group_id, ConsumerGroup)

    # --- classic to consumer

    def _upgrade(self, classic: ClassicGroup, out: list[Record]) -> ConsumerGroup:
        """A member of the new protocol joins a classic group: all members are carried over."""
        self._check_upgrade(classic)
        group = self._converted(classic)
        for waiting in classic.members.values():
            code = ErrorCode.REBALANCE_IN_PROGRESS
            classic.complete_join(waiting, JoinGroupResponse(error_code=code, member_id=waiting.member_id))
            classic.complete_sync(waiting, SyncGroupResponse(error_code=code))
        out += classic.tombstones()
        members = list(group.members.values())
        out += [records.member_metadata(group.group_id, member) for member in members]
        out.append(records.group_epoch(group.group_id, group.group_epoch, group.metadata_hash))
        out += [
            records.target_assignment(group.group_id, member_id, partitions)
            for member_id, partitions in group.target.items()
        ]
        out.append(records.target_epoch(group.group_id, group.assignment_epoch, 0))
        out += [records.current_assignment(group.group_id, member) for member in members]
        for member in members:
            assert member.classic is not None
            self.upgraded(group.group_id, member.member_id, member.classic.session_timeout_ms)
        log.info("group %s: classic becomes consumer", group.group_id)
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        start = f"Cannot upgrade classic group {classic.group_id} to consumer group because "
        if not self._table.settings.consumer_upgrade:
            raise _not_found(start + "online upgrade is disabled.")
        if not classic.uses_consumer_protocol:
            raise _not_found(start + "the group does not use the consumer embedded protocol.")
        if len(classic.members) > self._table.settings.consumer_max_size:
            raise _not_found(start + "the group size exceeds the consumer group maximum size.")
        if any(_has_user_data(member) for member in classic.members.values()):
            raise _not_found(
                f"{start}an unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade."
            )

    def _converted(self, classic: ClassicGroup) -> ConsumerGroup:
        """The classic group in the new form: its last assignment is both target and current
        assignment."""
        group = ConsumerGroup(classic.group_id)
        epoch = group.group_epoch = group.assignment_epoch = classic.generation_id
        protocol = classic.protocol_name or classic.select_protocol()
        try:
            for each in classic.members.values():
                if protocol not in each.protocol_names():
                    raise ProtocolError(f"{each.member_id} does not support {protocol}")
                subscription = parse_subscription(each.metadata(protocol))
                target = self._by_id(each.assignment)
                member = ConsumerMember(
                    each.member_id,
                    epoch,
                    epoch,
                    instance_id=each.instance_id,
                    rack_id=subscription.rack_id,
                    client_id=each.client_id,
                    client_host=each.client_host,
                    rebalance_timeout_ms=each.rebalance_timeout_ms,
                    subscribed_topics=frozenset(subscription.topics),
                    classic=ClassicMetadata(each.session_timeout_ms, tuple(each.protocols)),
                    assigned={
                        topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in target.items()
                    },
                )
                group.put_member(member)
                group.target[each.member_id] = target
        except ProtocolError as error:
            raise _not_found(
                f"Cannot upgrade classic group {classic.group_id} to consumer group because the embedded "
                "consumer protocol is malformed."
            ) from error
        group.metadata_hash = group.hash_with(self._table.topics)
        return group

    def _by_id(self, assignment: bytes) -> Partitions:
        """A classic assignment by topic id; a member that never synced has none. Raises
        ProtocolError."""
        topics = parse_assignment(assignment).assigned_partitions if assignment else []
        return named_partitions((topic for topic in topics if topic.partitions), self._table.topics)

    # --- consumer to classic

    def downgrade_without(self, group: ConsumerGroup, gone: Collection[str], now_ms: int) -> Outcome | None:
        """The outcome that makes the group classic when only classic members stay; None when they
        do not."""
        left = len(group.members) - len(gone)
        modern = len(group.members) - group.classic_members
        if not left or modern > len(gone) or not self._may_downgrade(left):
            return None
        rest = [member for member in group.members.values() if member.member_id not in gone]
        if not _common_protocols(rest):
            return None
        return self._downgrade(group, rest, now_ms, True)

    def may_downgrade_with(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the group becomes classic when a classic member takes the place of `replaced`."""
        return (
            not replaced.uses_classic
            and group.classic_members == len(group.members) - 1
            and self._may_downgrade(len(group.members))
        )

    def downgrade_with(
        self, group: ConsumerGroup, replaced: str, member: ConsumerMember, rebalance: bool, now_ms: int
    ) -> Outcome:
        """Make the group classic with `member` in the place of `replaced`."""
        rest = [each for each in group.members.values() if each.member_id != replaced]
        return self._downgrade(group, [*rest, member], now_ms, rebalance)

    def _may_downgrade(self, size: int) -> bool:
        settings = self._table.settings
        return settings.consumer_downgrade and size <= settings.max_size

    def _downgrade(
        self, group: ConsumerGroup, members: list[ConsumerMember], now_ms: int, rebalance: bool
    ) -> Outcome:
        classic = self._classic_of(group, members, now_ms)
        assignment = {each.member_id: each.assignment for each in classic.members.values()}
        out = [*group.tombstones(), group_metadata(classic, assignment)]
        log.info("group %s: consumer becomes classic", group.group_id)

        def written(_: ErrorCode) -> None:
            replayed = self._table.classic(group.group_id)
            if replayed is None:  # the append has failed, and the log does not have it
                return
            for member in replayed.members.values():
                self.downgraded(group.group_id, member.member_id)
                self._rebalance.schedule_heartbeat(replayed, member)
            if rebalance:
                self._rebalance.prepare(replayed, "it was a consumer group", now_ms)

        return Outcome(out, then=written)

    def _classic_of(self, group: ConsumerGroup, members: list[ConsumerMember], now_ms: int) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, now_ms, ClassicState.STABLE, group.group_epoch, CONSUMER)
        for member in members:
            assert member.classic is not None
            classic.add(
                ClassicMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.rebalance_timeout_ms,
                    member.classic.session_timeout_ms,
                    CONSUMER,
                    member.classic.protocols,
                )
            )
        classic.protocol_name = classic.select_protocol()
        for member in members:
            target = group.target_of(member) or plain(member.assigned)
            each = classic.members[member.member_id]
            each.assignment = self.encode_partitions(target, each.metadata(classic.protocol_name))
        return classic

    def encode_partitions(self, partitions: Partitions, metadata: bytes) -> bytes:
        """An assignment in the version of a classic member's own subscription."""
        named = [
            (name, sorted(each))
            for topic_id, each in partitions.items()
            if (name := self._table.topics.name_of(topic_id)) is not None
        ]
        try:
            version = version_of(metadata)
        except ProtocolError:  # only its first protocol was checked when the member joined
            version = 0
        return encode_assignment(named, version)


def _common_protocols(members: Iterable[ConsumerMember]) -> set[str]:
    """Names of the protocols that all support; none unless all are classic members."""
    names = [
        set() if member.classic is None else {name for name, _ in member.classic.protocols}
        for member in members
    ]
    return set.intersection(*names) if names else set()


def _has_user_data(member: ClassicMember) -> bool:
    """Whether the member's assignment has data of an assignor, which an upgrade would lose."""
    try:
        return bool(member.assignment and parse_assignment(member.assignment).user_data)
    except ProtocolError:  # the conversion refuses it
        return False


def _not_found(message: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _nothing(*_: object) -> None:
    """Replaced by the owner: sessions of members that have been carried over start, or their timers
    in the consumer group end."""
