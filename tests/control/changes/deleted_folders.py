"""Folders of topics that are deleted, and a deletion that does not end."""

import asyncio
import base64
from pathlib import Path

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import Change, Deletion
from kbroker.log import files
from tests.control.fakes import World


def mark(partition: Partition | Replica, topic_id: bytes) -> None:
    """partition.metadata, as IO workers write it."""
    mark_folder(Path(partition.folder), topic_id)


def mark_folder(folder: Path, topic_id: bytes) -> None:
    """As `mark`, of a folder."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    (folder / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")


def begin_deletion(made: World) -> Deletion:
    """Create topic "a" and delete it as far as the store; then control dies."""
    asyncio.run(create_topics(made.broker, [NewTopic("a")]))
    topic = made.broker.catalogue.topics["a"]
    (partition,) = topic.partitions
    mark(partition, topic.topic_id)
    one = Deletion(topic.topic_id, partition.replicas[0])
    change = Change(deleted_topics=["a"], deletions=[one])
    asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
    return one


def suffixes(made: World, topic: str) -> list[str]:
    """Of a topic's dated folders."""
    dated = (path.name for log_dir in made.dirs for path in Path(log_dir).glob(f"{topic}-0.*"))
    return sorted(name.rpartition("-")[2] for name in dated)
