"""Reassignments beside other changes of the same topic."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication.reassignment import finish, reassign
from kbroker.control.replication.service import Replication
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World


def test_a_partition_that_is_deleted_meanwhile_gets_no_replica(tmp_path: Path) -> None:
    """Its folder would be a topic at the next start."""
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))
    made = World(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2)
    broker = made.broker
    replication = Replication(broker)
    asyncio.run(create_topics(broker, [NewTopic("a", 1, 1)]))
    topic = broker.catalogue.topics["a"]
    (partition,) = topic.partitions

    async def both() -> None:
        await asyncio.gather(
            delete_topics(broker, lambda: [topic]),
            reassign(replication, topic, partition, [1, 2]),
            finish(replication, topic, partition),
        )

    with pytest.raises(KafkaError) as refused:
        asyncio.run(both())
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [path for log_dir in made.dirs for path in Path(log_dir).glob("a-*")] == []
    assert not any(worker.opened for worker in made.workers)
    broker.close()
