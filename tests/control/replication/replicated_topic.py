"""A broker with replica sites, and its topic "a" of one partition."""

import asyncio
from pathlib import Path

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.protocol.errors import KafkaError
from tests.control.fakes import World


def sited(folder: Path, sites: int = 3, **settings: str) -> World:
    dirs = ";".join(str(folder / f"d{number}") for number in range(sites))
    return World(folder, {"kbroker.replica.sites": dirs, **settings}, workers=sites, dirs=sites)


def create(made: World, *specs: NewTopic) -> dict[str, TopicPlan | KafkaError]:
    return asyncio.run(create_topics(made.broker, specs))


def only(made: World) -> Partition:
    return made.broker.catalogue.topics["a"].partitions[0]


def shown(made: World) -> tuple[int, list[int], list[int]]:
    partition, broker = only(made), made.broker
    in_sync = broker.nodes.of(r for r in partition.replicas if r.in_sync)
    return broker.nodes.node_of(partition.leader), broker.nodes.of(partition.replicas), in_sync


def lose(made: World, worker: int) -> None:
    """The IO worker's link ends."""
    made.broker.links.lost(made.workers[worker])
