"""The role of each replica of a partition, as sent to its IO worker. Pure."""

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.ipc.messages import Follow, Lead


def role_of(partition: Partition, replica: Replica, min_insync_replicas: int) -> Lead | Follow | None:
    """A replica's role; None for the only replica of a partition. A follower of a partition without
    a leader waits for one."""
    if not partition.replicated:
        return None
    leader = partition.leader
    if replica is not leader:
        return Follow(
            replica.slot, partition.leader_epoch, leader.slot, leader.generation, leader.worker, leader.folder
        )
    others = [other for other in partition.replicas if other is not replica]
    return Lead(
        replica.slot,
        partition.leader_epoch,
        tuple(other.slot for other in others if other.in_sync or other.joining),
        tuple((other.slot, other.worker) for other in others),
        min(min_insync_replicas, len(partition.replicas)),
    )
