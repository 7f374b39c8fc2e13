"""The tables of topics, their partitions and replicas."""

import sqlite3
from collections.abc import Sequence

from kbroker.control.metadata.catalogue import Partition, Replica, Topic


def load_topics(db: sqlite3.Connection) -> list[Topic]:
    """All topics, with their partitions."""
    topics = {
        name: Topic(name, topic_id)
        for name, topic_id in db.execute("SELECT name, topic_id FROM topics ORDER BY name")
    }
    rows = db.execute(
        "SELECT topic, idx, log_dir, slot, generation, leader_epoch FROM partitions ORDER BY topic, idx"
    )
    for row in rows:
        topics[row[0]].partitions.append(Partition(*row))
    _load_replicas(db, topics)
    return list(topics.values())


def _load_replicas(db: sqlite3.Connection, topics: dict[str, Topic]) -> None:
    found: dict[tuple[str, int], list[tuple[Replica, str]]] = {}
    for topic, index, log_dir, slot, generation, in_sync, state in db.execute(
        "SELECT topic, idx, log_dir, slot, generation, in_sync, state FROM replicas ORDER BY topic, idx, position"
    ):
        replica = Replica(topic, index, log_dir, slot, generation, in_sync=bool(in_sync))
        found.setdefault((topic, index), []).append((replica, state))
    for (name, index), replicas in found.items():
        partition = topics[name].partitions[index]
        partition.replicas = [replica for replica, _ in replicas]
        partition.leader = next(r for r in partition.replicas if r.slot == partition.slot)
        partition.adding = [replica for replica, state in replicas if state == "adding"]
        partition.removing = [replica for replica, state in replicas if state == "removing"]


def put_partitions(db: sqlite3.Connection, added: Sequence[Partition], moved: Sequence[Partition]) -> None:
    """Add partitions, and set where others are; with their replicas."""
    db.executemany("INSERT INTO partitions VALUES (?, ?, ?, ?, ?, ?)", map(_partition_row, added))
    db.executemany("INSERT OR REPLACE INTO partitions VALUES (?, ?, ?, ?, ?, ?)", map(_partition_row, moved))
    for partition in [*added, *moved]:
        _put_replicas(db, partition)


def put_leader(db: sqlite3.Connection, p: Partition) -> bool:
    """Set the leader and replicas of a partition; whether it is stored."""
    updated = db.execute(
        "UPDATE partitions SET log_dir = ?, slot = ?, generation = ?, leader_epoch = ? WHERE topic = ? AND idx = ?",
        (p.log_dir, p.slot, p.generation, p.leader_epoch, p.topic, p.index),
    )
    if updated.rowcount:
        _put_replicas(db, p)
    return bool(updated.rowcount)


def _put_replicas(db: sqlite3.Connection, p: Partition) -> None:
    """All logs of a partition that has more than one."""
    db.execute("DELETE FROM replicas WHERE topic = ? AND idx = ?", (p.topic, p.index))
    if not p.replicated:
        return
    for position, r in enumerate(p.replicas):
        state = "adding" if r in p.adding else "removing" if r in p.removing else ""
        db.execute(
            "INSERT INTO replicas VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (p.topic, p.index, position, r.log_dir, r.slot, r.generation, int(r.in_sync), state),
        )


def _partition_row(p: Partition) -> tuple[str, int, str, int, int, int]:
    return (p.topic, p.index, p.log_dir, p.leader_epoch, p.slot, p.generation)
