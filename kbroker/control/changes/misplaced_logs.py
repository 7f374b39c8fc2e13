"""Logs that are in another log dir of their site than the store names, or in several."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from kbroker.control.broker import Broker
from kbroker.control.changes.retirement import put_aside, retire_all
from kbroker.control.metadata import adoption
from kbroker.control.metadata.adoption import FoundPartition
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.metadata.log_tail import LogTail, is_part_of, tail_of
from kbroker.control.store.change import Change, Deletion
from kbroker.control.store.store import Store
from kbroker.log import boot_mark

log = logging.getLogger(__name__)

Tails = Mapping[FoundPartition, LogTail]


def settle(broker: Broker, store: Store, scanned: Iterable[FoundPartition]) -> None:
    """Decide which folder of a log is used, at the start of a run. Blocks. scanned: folders that no
    replica has.

    A log that is only in another log dir of its site is used there, as in Apache Kafka: it was
    moved while no broker ran, or the store is an outdated copy. Else an empty log would take its
    place, or the copy of a move that had not ended. Other folders are removed, such as a move
    leaves them, if the log has all their records. Apache Kafka refuses to start with two folders of
    a log; here the other one is renamed."""
    deleted = {(one.topic_id, one.partition.index) for one in store.deletions()}
    found = [one for one in scanned if _is_misplaced(broker, one)]
    tails = {one: tail_of(one.folder) for one in found}
    for one in sorted(found, key=lambda one: (tails[one], one.leader_epoch), reverse=True):
        replica = _replica_of(broker, one)
        if replica is None or broker.dir_errors.of(replica.log_dir) or (one.topic_id, one.index) in deleted:
            continue
        if _is_newer(tails[one], replica):
            _use(broker, store, replica, one)
    _retire(broker, found, tails)


def _is_misplaced(broker: Broker, found: FoundPartition) -> bool:
    topic = broker.catalogue.by_id(found.topic_id)
    return topic is not None and topic.name == found.topic and found.index < len(topic.partitions)


def _partition_of(broker: Broker, found: FoundPartition) -> Partition:
    partition = broker.catalogue.partition(found.topic, found.index)
    assert partition is not None
    return partition


def _replica_of(broker: Broker, found: FoundPartition) -> Replica | None:
    return broker.nodes.replica_beside(_partition_of(broker, found).replicas, found.log_dir)


def _use(broker: Broker, store: Store, replica: Replica, found: FoundPartition) -> None:
    log.warning("%s is not there; its log is in %s now", replica.folder, found.log_dir)
    boot_mark.remove(found.log_dir)
    moved = _partition_of(broker, found).with_moved(replica, found.log_dir)
    store.apply(Change(moved_partitions=[moved]))
    replica.log_dir = found.log_dir
    topic = broker.catalogue.by_id(found.topic_id)
    assert topic is not None
    broker.catalogue.put(topic)


def _retire(broker: Broker, found: Iterable[FoundPartition], tails: Tails) -> None:
    """Remove or rename the folders of logs that are used elsewhere; they stay where that is not
    known, because a log dir is offline."""
    left = []
    for one in found:
        partition = _partition_of(broker, one)
        if one.log_dir in [replica.log_dir for replica in partition.replicas]:
            continue
        used = _replica_of(broker, one) or partition.leader
        folder = None if broker.dir_errors.of(used.log_dir) else _folder_of(used)
        if folder is None:
            continue
        if is_part_of(tails[one], tail_of(folder)):
            left.append(Deletion(one.topic_id, replace(partition.leader, log_dir=one.log_dir)))
            continue
        try:
            put_aside(one)
        except OSError as error:  # the next start tries again
            log.error("%s could not be renamed: %s", one.folder, error)
    retire_all(left)


def _is_newer(found: LogTail, replica: Replica) -> bool:
    """Whether a log is used in the place of a replica: that has no folder, or only a copy with
    fewer records. A move is decided when its copy is complete, so this one had not ended."""
    if Path(replica.folder).is_dir():
        return False
    copy = _copy_of(replica)
    return copy is None or found > tail_of(copy)


def _folder_of(replica: Replica) -> str | None:
    """The folder of a replica, or the copy that becomes it, if it is there. Outside of log.dirs
    none is: another broker may have it."""
    return replica.folder if Path(replica.folder).is_dir() else _copy_of(replica)


def _copy_of(replica: Replica) -> str | None:
    """The copy of a move to the replica's log dir."""
    copies = adoption.futures([replica.log_dir])
    return next(
        (one.folder for one in copies if (one.topic, one.index) == (replica.topic, replica.index)), None
    )
