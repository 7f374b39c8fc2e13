"""The records of classic groups, in the version that Apache Kafka 4.3 writes."""

from collections.abc import Mapping

from kbroker.control.coordinator.machine import Record
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kbroker.protocol.record_types import encode_key, encode_value

_GROUP_METADATA_VERSION = 3


def group_metadata(group: ClassicGroup, assignment: Mapping[str, bytes]) -> Record:
    """The durable state of the group: its generation, and each member's part in it."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignment[member.member_id],
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_timestamp is None else group.state_timestamp,
        members=members,
    )
    return Record(encode_key(GroupMetadataKey(group.group_id)), encode_value(value, _GROUP_METADATA_VERSION))


def empty_group_metadata(group: ClassicGroup) -> Record:
    """The record of a group without members yet."""
    value = GroupMetadataValue(
        protocol=None,
        leader=None,
        current_state_timestamp=-1 if group.state_timestamp is None else group.state_timestamp,
    )
    return Record(encode_key(GroupMetadataKey(group.group_id)), encode_value(value, _GROUP_METADATA_VERSION))
