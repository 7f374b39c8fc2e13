"""The choice of a leader: the first replica of the assignment that is in sync and available; and
how a choice is undone. Pure, except for the callables that it gets.

Source: Kafka's PartitionChangeBuilder.electLeader.
"""

from collections.abc import Callable, Iterable

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition, Replica


def electable(partition: Partition, there: Callable[[Replica], bool], unclean: bool) -> Replica | None:
    """The new leader. unclean: an out-of-sync replica may lead when no other is left."""
    remaining = [replica for replica in partition.replicas if replica not in partition.removing]
    for replica in [*remaining, *partition.removing]:
        if replica.in_sync and there(replica):
            return replica
    return next((replica for replica in remaining if there(replica)), None) if unclean else None


def choose_leaders(broker: Broker) -> list[Partition]:
    """Elect leaders at the start of a run: the preferred leader, if it is in sync and its log dir
    is online. Returns the partitions whose leader has changed. Their leader epochs stay: a new run
    has incremented them already."""
    changed = []
    for partition in broker.catalogue.partitions():
        if not partition.replicated:
            continue
        chosen = electable(partition, lambda replica: replica.log_dir in broker.online_dirs, unclean=False)
        if chosen is not None and chosen is not partition.leader:
            partition.leader = chosen
            changed.append(partition)
    return changed


class Leaderships:
    """Leaders, replicas and in-sync sets of partitions as they were, until a decision about them is
    stored."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._kept = [
            (
                (p, p.leader, p.leader_epoch, p.has_leader),
                (p.replicas, p.adding, p.removing),
                [(r, r.in_sync) for r in p.replicas],
            )
            for p in partitions
        ]

    def restore(self) -> None:
        """Undo the decision. Lists of replicas are replaced by a decision, never changed."""
        for (partition, leader, epoch, has_leader), listed, in_sync in self._kept:
            partition.leader, partition.leader_epoch, partition.has_leader = leader, epoch, has_leader
            partition.replicas, partition.adding, partition.removing = listed
            for replica, was_in_sync in in_sync:
                replica.in_sync = was_in_sync
