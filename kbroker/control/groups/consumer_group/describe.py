"""ConsumerGroupDescribe."""

from kbroker.control.groups.consumer_group.member import ConsumerMember
from kbroker.control.groups.consumer_group.state import ConsumerGroup
from kbroker.control.groups.consumer_group.target import preferred_assignor
from kbroker.control.groups.modern_group.partitions import Partitions
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kbroker.protocol.slices import paced

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """A consumer group with its members; GROUP_ID_NOT_FOUND in the answer for anything else."""
    try:
        group = table.of_type(group_id, ConsumerGroup)
    except KafkaError as error:
        return DescribedGroup(error.code, error.message, group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(table, group.members),
        members=[_member(table, group, member) for member in paced(group.members_in_order())],
    )


def _member(table: GroupTable, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(table, _held(member)),
        target_assignment=_assignment(table, group.target.get(member.member_id, {})),
        member_type=CLASSIC_MEMBER if member.uses_classic else CONSUMER_MEMBER,
    )


def _held(member: ConsumerMember) -> Partitions:
    """The member's assigned partitions, and those pending revocation."""
    held = {topic_id: set(each) for topic_id, each in member.assigned.items()}
    for topic_id, each in member.pending_revocation.items():
        held.setdefault(topic_id, set()).update(each)
    return {topic_id: frozenset(each) for topic_id, each in held.items()}


def _assignment(table: GroupTable, partitions: Partitions) -> Assignment:
    """An assignment with the topics' ids and names, without deleted topics."""
    return Assignment(
        [
            TopicPartitions(topic_id, name, sorted(each))
            for topic_id, each in partitions.items()
            if (name := table.topics.name_of(topic_id)) is not None
        ]
    )
