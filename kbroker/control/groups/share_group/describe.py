"""ShareGroupDescribe."""

from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from kbroker.protocol.slices import paced

ASSIGNOR = "simple"


def describe_share_group(table: GroupTable, group_id: str) -> DescribedGroup:
    """A share group with its members; GROUP_ID_NOT_FOUND in the answer for anything else."""
    try:
        group = table.of_type(group_id, ShareGroup)
    except KafkaError as error:
        return DescribedGroup(error.code, error.message, group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[
            Member(
                member.member_id,
                member.rack_id,
                member.member_epoch,
                member.client_id,
                member.client_host,
                sorted(member.subscribed_topics),
                Assignment(
                    [
                        TopicPartitions(topic_id, name, sorted(each))
                        for topic_id, each in member.assigned.items()
                        if (name := table.topics.name_of(topic_id)) is not None
                    ]
                ),
            )
            for member in paced(group.members_in_order())
        ],
    )
