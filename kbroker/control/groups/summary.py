"""All groups in short, for metrics."""

from kbroker.control.broker import Broker
from kbroker.control.groups.service import GroupService
from kbroker.ipc.messages import GroupSummary
from kbroker.protocol.errors import KafkaError


def summaries(broker: Broker) -> tuple[GroupSummary, ...]:
    """Groups whose partition of the internal topic is loaded; none before there is a coordinator."""
    try:
        table = GroupService.of(broker).shard.table
    except KafkaError:
        return ()
    return tuple(
        GroupSummary(
            group.group_id,
            group.TYPE,
            group.state_name,
            len(getattr(group, "members", ())),
            {
                topic: {partition: committed.offset for partition, committed in partitions.items()}
                for topic, partitions in table.offsets.of_group(group.group_id).items()
            },
        )
        for group in list(table.groups.values())
    )
