"""Roles sent to fake IO workers: which are sent, which again."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication import role_calls
from kbroker.control.replication.role_calls import RoleCalls
from kbroker.ipc.messages import Follow, Lead
from kbroker.protocol.errors import ErrorCode, KafkaError
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


def test_a_role_without_an_answer_in_time_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker may take it later. As a leader it would wait for a replica that is not in sync."""
    made, partition = replicated(tmp_path)
    calls, follower = RoleCalls(made.broker), partition.replicas[1]
    follower.in_sync = False
    asyncio.run(send(calls, partition))
    leader = made.workers[partition.worker]
    call, before = leader.call, len(leader.calls)

    async def hang(body: object) -> None:
        await call(body)
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(leader, "call", hang)
        patch.setattr(role_calls, "ANSWER_S", 0.01)
        follower.joining = True
        (answer,) = asyncio.run(calls.send_to_leaders([partition]))
    assert isinstance(answer, KafkaError)
    follower.joining = False
    asyncio.run(send(calls, partition))
    assert [role.in_sync for role in leader.calls[before:]] == [(follower.slot,), ()]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_leader_that_is_being_opened_gets_the_call_that_it_is_alone_again(
    tmp_path: Path, code: ErrorCode
) -> None:
    """Its previous role would let it wait for replicas that are gone. One that is offline has no
    role when it is opened again."""
    made, partition = replicated(tmp_path)
    calls, leader = RoleCalls(made.broker), made.workers[partition.worker]
    partition.replicas = [partition.leader]
    before = len(leader.calls)
    leader.refuse[Lead] = KafkaError(code)
    asyncio.run(calls.lead_alone(partition))
    leader.refuse.clear()

    async def repeat() -> None:
        calls.repeat_alone()
        await asyncio.gather(*calls._confirming)

    for _ in range(2):
        asyncio.run(repeat())
    alone = Lead(partition.slot, partition.leader_epoch, (), (), 1)
    again = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.calls[before:] == [alone] * (1 + again)


def test_a_leader_that_has_followers_again_gets_no_call_that_it_is_alone(tmp_path: Path) -> None:
    made, partition = replicated(tmp_path)
    calls, leader = RoleCalls(made.broker), made.workers[partition.worker]
    leader.refuse[Lead] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asyncio.run(calls.lead_alone(partition))
    before = len(leader.calls)

    async def repeat() -> None:
        calls.repeat_alone()
        await asyncio.gather(*calls._confirming)

    asyncio.run(repeat())
    assert len(leader.calls) == before
