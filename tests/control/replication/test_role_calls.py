"""Roles sent to fake IO workers: which are sent, which again."""

import asyncio
from pathlib import Path

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication.role_calls import RoleCalls
from kbroker.ipc.messages import Follow, Lead
from tests.control.fakes import World


def replicated(folder: Path) -> tuple[World, Partition]:
    dirs = ";".join(str(folder / f"d{number}") for number in range(2))
    made = World(folder, {"kbroker.replica.sites": dirs}, workers=2, dirs=2)
    asyncio.run(create_topics(made.broker, [NewTopic("a", 1, 2)]))
    return made, made.broker.catalogue.topics["a"].partitions[0]


def roles(made: World) -> list[Lead | Follow]:
    return [call for worker in made.workers for call in worker.calls if isinstance(call, Lead | Follow)]


async def send(calls: RoleCalls, partition: Partition) -> None:
    await calls.send([partition])
    await asyncio.gather(*calls._confirming)


def test_a_confirmed_role_is_not_sent_twice(tmp_path: Path) -> None:
    made, partition = replicated(tmp_path)
    calls = RoleCalls(made.broker)
    before = len(roles(made))
    asyncio.run(send(calls, partition))
    assert len(roles(made)) == before + 2
    asyncio.run(send(calls, partition))
    assert len(roles(made)) == before + 2


def test_the_role_of_before_is_sent_again_after_a_temporary_one(tmp_path: Path) -> None:
    made, partition = replicated(tmp_path)
    calls = RoleCalls(made.broker)
    asyncio.run(send(calls, partition))
    leader = partition.leader
    asyncio.run(calls.replace(leader, Lead(leader.slot, partition.leader_epoch, (), (), 1)))
    before = len(roles(made))
    asyncio.run(send(calls, partition))
    assert len(roles(made)) == before + 1


def test_a_role_that_found_no_worker_is_reported_once_as_unconfirmed(tmp_path: Path) -> None:
    made, partition = replicated(tmp_path)
    calls = RoleCalls(made.broker)
    made.broker.links.lost(made.workers[partition.leader.worker])
    asyncio.run(send(calls, partition))
    assert calls.take_unconfirmed([partition]) == [partition]
    assert calls.take_unconfirmed([partition]) == []
