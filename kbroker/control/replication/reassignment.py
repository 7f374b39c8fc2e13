"""Moving replicas between sites: new copies are made first, then the old ones are removed
(KIP-455).

Source: Kafka's ReplicationControlManager.alterPartitionReassignments and
PartitionReassignmentReplicas.
"""

import asyncio
import logging
from collections.abc import Sequence

from kbroker.control.changes.log_closings import close_deleted
from kbroker.control.changes.topic_change import sites_open
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.placement import place_assigned
from kbroker.control.metadata.topic_plan import check_replicas
from kbroker.control.replication.election import Leaderships
from kbroker.control.replication.service import Replication
from kbroker.control.store.change import Change, Deletion
from kbroker.protocol.errors import ErrorCode, KafkaError

OPEN_S = 2.0

log = logging.getLogger(__name__)


async def reassign(
    replication: Replication,
    topic: Topic,
    partition: Partition,
    nodes: Sequence[int] | None,
    end_s: float | None = None,
) -> None:
    """Begin to move a partition's replicas to the nodes, the preferred leader first; None: cancel
    the pending one. end_s: until when it waits for the topic's logs; None: `opened_by`.

    Raises INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS, KAFKA_STORAGE_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION, and REQUEST_TIMED_OUT while logs of the topic cannot be opened, or a
    former replica cannot be closed: a new one could have its folder."""
    broker = replication.broker
    sites = sites_open(broker)
    if nodes is not None:
        check_replicas(nodes, sites, None)
    if nodes == broker.nodes.of(partition.replicas) and not partition.adding and not partition.removing:
        return
    async with broker.log_openings.when_topic_opened(broker.changing, topic.name, end_s):
        if broker.catalogue.partition(topic.name, partition.index) is not partition:  # deleted just now
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if nodes is not None and broker.closing.pending(topic.name):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "A former replica is not removed yet")
        async with replication.deciding:
            before = Leaderships([partition])
            try:
                if nodes is None:
                    gone = await _cancel(replication, topic, partition)
                else:
                    gone = await _begin(replication, topic, partition, nodes)
            except KafkaError:
                await replication.restore([partition], before)
                raise
        if nodes is not None:
            broker.write_slots(topic, [partition])
            opening = asyncio.ensure_future(broker.open_logs([(topic, [partition])]))
            broker.log_openings.leave(opening)
            await asyncio.wait([opening], timeout=OPEN_S)
            if not opening.done():  # a worker is down, and its successor opens the logs, or hangs
                log.warning("%s-%d: not every new replica is open yet", topic.name, partition.index)
        await close_deleted(broker, gone)


async def finish(replication: Replication, topic: Topic, partition: Partition) -> None:
    """Remove the replicas to be removed once every new replica is in sync; nothing happens
    before."""
    broker = replication.broker
    async with broker.changing:
        async with replication.deciding:
            remaining = [r for r in partition.replicas if r not in partition.removing]
            here = broker.catalogue.partition(topic.name, partition.index) is partition
            moving = here and (partition.adding or partition.removing)
            if not moving or not all(r.in_sync for r in remaining):
                return
            leader_goes = partition.leader in partition.removing
            there = [r for r in remaining if replication.is_available(r)]
            if leader_goes and not there:
                return
            before = Leaderships([partition])
            if leader_goes:
                # the leader would stop at each check while the store refuses changes
                await broker.in_store(lambda store: store.apply(Change(led_partitions=[partition])))
            try:
                if leader_goes:
                    await replication.move(partition, there[0])
                gone = partition.removing
                partition.adding, partition.removing = [], []
                deletions = await _drop(replication, topic, partition, gone)
            except KafkaError:
                await replication.restore([partition], before)
                raise
            log.info(
                "%s-%d: moved to nodes %s", topic.name, partition.index, broker.nodes.of(partition.replicas)
            )
        await close_deleted(broker, deletions)


async def finish_all(replication: Replication) -> None:
    """Finish each pending reassignment whose new replicas are in sync."""
    for partition in replication.moving():
        if (topic := replication.broker.catalogue.get(partition.topic)) is not None:
            await finish(replication, topic, partition)


async def _begin(
    replication: Replication, topic: Topic, partition: Partition, nodes: Sequence[int]
) -> list[Deletion]:
    broker = replication.broker
    here = {broker.nodes.node_of(replica): replica for replica in partition.replicas}
    old = [replica for replica in partition.replicas if replica not in partition.adding]
    missing = [node for node in nodes if node not in here]
    occupied = [replica.log_dir for replica in broker.catalogue.replicas()]
    dirs = place_assigned([missing], sites_open(broker), occupied)[0]
    taken = broker.slots.take(len(missing))
    added = []
    for node, log_dir, (slot, generation) in zip(missing, dirs, taken, strict=True):
        replica = here[node] = Replica(topic.name, partition.index, log_dir, slot, generation, in_sync=False)
        broker.ownership.assign(replica)
        added.append(replica)
    target = [here[node] for node in nodes]
    dropped = [r for r in partition.adding if r not in target]
    partition.adding = [r for r in target if r not in old]
    partition.removing = [r for r in old if r not in target]
    partition.replicas = [*target, *partition.removing]
    if (
        partition.leader not in partition.replicas
    ):  # a copy that had become leader but was removed from the assignment
        partition.replicas.append(partition.leader)
        partition.removing.append(partition.leader)
        dropped.remove(partition.leader)
    try:
        return await _drop(replication, topic, partition, dropped)
    except KafkaError:
        broker.ownership.release(added)
        raise


async def _cancel(replication: Replication, topic: Topic, partition: Partition) -> list[Deletion]:
    if not partition.adding and not partition.removing:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    old = [r for r in partition.replicas if r not in partition.adding]
    if partition.leader in partition.adding:
        there = [r for r in old if r.in_sync and replication.is_available(r)]
        if not there:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No former replica is in sync any more")
        await replication.move(partition, there[0])
    gone = partition.adding
    partition.adding, partition.removing = [], []
    return await _drop(replication, topic, partition, gone)


async def _drop(
    replication: Replication, topic: Topic, partition: Partition, gone: list[Replica]
) -> list[Deletion]:
    """Store and announce a partition's new replicas; the logs that are to be closed and removed
    then. Raises KafkaError: nothing is stored or announced, and the caller restores the
    partition. A leader that served without the others before that is stored would lose its records
    at the next start."""
    broker = replication.broker
    partition.replicas = [r for r in partition.replicas if r not in gone]
    for replica in gone:
        replica.in_sync = replica.joining = False
    deletions = [Deletion(topic.topic_id, replica) for replica in gone]
    change = Change(led_partitions=[partition], deletions=deletions)
    await broker.in_store(lambda store: store.apply(change))
    broker.ownership.transfer_counters(gone, partition.leader)
    await replication.send_out([partition])
    if not partition.replicated:
        await replication.become_sole_leader(partition)
    broker.write_slots(topic, [partition])
    return deletions
