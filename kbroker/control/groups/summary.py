"""All groups in short, for metrics."""

from kbroker.control.services import Services
from kbroker.ipc.http_messages import GroupSummary
from kbroker.protocol.errors import KafkaError


def summaries(services: Services) -> tuple[GroupSummary, ...]:
    """Groups whose partition of the internal topic is loaded; none before there is a
    coordinator."""
    try:
        table = services.groups.shard.table
        counts = services.shares.partitions.letter_counts
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
            dict(counts.written_of(group.group_id)),
        )
        for group in list(table.groups.values())
    )
