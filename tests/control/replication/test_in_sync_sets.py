"""In-sync sets that grow, and leaders that change, with fake IO workers: in which order, and what
is counted."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication import service
from kbroker.control.replication.service import (
    ELECTIONS,
    EXPANDS,
    SHRINKS,
    UNCLEAN_ELECTIONS,
    Replication,
)
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import Follow, Lead
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World
from tests.control.replication.replicated_topic import create, lose, only, shown, sited


def leads(made: World, worker: int = 0) -> list[Lead]:
    return [call for call in made.workers[worker].calls if isinstance(call, Lead)]


def counts(made: World) -> list[int]:
    words = made.broker.metrics.words
    return [int(words[word]) for word in (EXPANDS, SHRINKS, ELECTIONS, UNCLEAN_ELECTIONS)]


def out_of_sync(folder: Path, answer: object) -> tuple[World, Replication]:
    """A copy that has all records, and was out of sync; the leader's answer to a new role."""
    made = sited(folder, 2)
    create(made, NewTopic("a", 1, 2))
    only(made).replicas[1].in_sync = False
    worker: Any = made.workers[0]
    worker._Lead = lambda _: answer
    replication = Replication(made.broker)
    asyncio.run(replication._store([only(made)]))
    asyncio.run(replication._announce([only(made)]))
    return made, replication


def test_a_copy_joins_the_in_sync_set_once_its_leader_waits_for_it(tmp_path: Path) -> None:
    made, replication = out_of_sync(tmp_path, True)
    copy = only(made).replicas[1]
    asyncio.run(replication.check())
    assert [lead.in_sync for lead in leads(made)] == [(copy.slot,)]
    assert shown(made) == (1, [1, 2], [1, 2])
    assert (counts(made), copy.joining) == ([1, 0, 0, 0], False)
    assert made.shared.in_sync[copy.slot] == 1
    assert made.network.topics["a"].partitions[0].in_sync == 2
    made.broker.close()
    made.start()
    assert shown(made) == (1, [1, 2], [1, 2])


@pytest.mark.parametrize("answer", [False, None])
def test_a_copy_that_lacks_records_when_its_leader_begins_to_wait_stays_out_of_sync(
    tmp_path: Path, answer: object
) -> None:
    made, replication = out_of_sync(tmp_path, answer)
    copy = only(made).replicas[1]
    asyncio.run(replication.check())
    assert [lead.in_sync for lead in leads(made)] == [(copy.slot,), ()]
    assert shown(made) == (1, [1, 2], [1])
    assert (counts(made), copy.joining) == ([0, 0, 0, 0], False)
    assert made.shared.in_sync[copy.slot] == 0
    assert made.network.topics["a"].partitions[0].in_sync == 1


def test_a_copy_that_joins_is_not_throttled_before_its_leader_waits_for_it(tmp_path: Path) -> None:
    made, replication = out_of_sync(tmp_path, True)
    copy, seen = only(made).replicas[1], list[tuple[int, bool]]()
    worker: Any = made.workers[0]
    worker._Lead = lambda _: seen.append((int(made.shared.in_sync[copy.slot]), copy.in_sync))
    made.shared.in_sync[copy.slot] = 0
    asyncio.run(replication.check())
    assert seen[0] == (1, False)


def test_a_copy_of_a_worker_that_is_gone_does_not_join(tmp_path: Path) -> None:
    made, replication = out_of_sync(tmp_path, True)
    lose(made, 1)
    asyncio.run(replication.check())
    assert leads(made) == []
    assert shown(made) == (1, [1, 2], [1])


def test_a_role_that_its_worker_refused_is_sent_again(tmp_path: Path) -> None:
    made, replication = out_of_sync(tmp_path, True)
    made.workers[0].refuse[Lead] = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    asyncio.run(replication.check())
    assert shown(made) == (1, [1, 2], [1])
    only(made).replicas[1].in_sync = False
    made.shared.slots[only(made).replicas[1].slot, Slot.LEADER_EPOCH] = -1  # it does not join again
    made.workers[0].refuse.clear()
    before = len(leads(made))
    asyncio.run(replication.check())
    assert [lead.in_sync for lead in leads(made)[before:]] == [()]
    asyncio.run(replication.check())
    assert len(leads(made)) == before + 1


def test_a_late_copy_that_leads_meanwhile_stays_in_sync(tmp_path: Path) -> None:
    """Lag is measured before the lock of decisions is taken."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    partition = only(made)
    late = [(partition, replica) for replica in partition.replicas]
    asyncio.run(Replication(made.broker)._shrink(late))
    assert shown(made) == (1, [1, 2], [1])
    assert counts(made) == [0, 1, 0, 0]


def test_elections_and_copies_that_leave_are_counted(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    replication = Replication(made.broker)
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert counts(made) == [0, 1, 1, 0]
    lose(made, 2)
    asyncio.run(replication.worker_lost(2))
    assert counts(made) == [0, 2, 1, 0]


def test_an_unclean_election_is_counted_and_leaves_its_leader_in_sync(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3, configs={"unclean.leader.election.enable": "true"}))
    partition = only(made)
    partition.replicas[1].in_sync = partition.replicas[2].in_sync = False
    partition.replicas[2].joining = True
    lose(made, 0)
    asyncio.run(Replication(made.broker).worker_lost(0))
    assert shown(made) == (2, [1, 2, 3], [2])
    assert counts(made) == [0, 0, 1, 1]
    assert not partition.replicas[2].joining


def test_a_replica_leads_once_it_has_the_last_records_of_the_leader_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "CATCH_UP_S", 3600)
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    partition = only(made)
    preferred, leader = partition.replicas
    partition.leader = leader
    made.shared.slots[leader.slot, Slot.LOG_END] = 5
    made.shared.slots[preferred.slot, Slot.LOG_END] = 4

    async def script() -> None:
        election = asyncio.ensure_future(Replication(made.broker).elect_on_demand(partition, unclean=False))
        for _ in range(5):
            await asyncio.sleep(0.001)
        assert (election.done(), leads(made)) == (False, [])
        made.shared.slots[preferred.slot, Slot.LOG_END] = 5
        await asyncio.wait_for(election, 60)

    asyncio.run(script())
    assert partition.leader is preferred
    assert [lead.leader_epoch for lead in leads(made)] == [1]


@pytest.mark.parametrize("part", ["adding", "removing"])
def test_leadership_does_not_return_to_the_preferred_replica_during_a_reassignment(
    tmp_path: Path, part: str
) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    partition, replication = only(made), Replication(made.broker)
    partition.leader = partition.replicas[1]
    setattr(partition, part, [partition.replicas[2]])
    assert asyncio.run(replication.elect_preferred()) == 0
    assert shown(made)[0] == 2
    setattr(partition, part, [])
    assert asyncio.run(replication.elect_preferred()) == 1
    assert shown(made)[0] == 1


def test_the_successor_of_a_lost_worker_gets_its_roles_again(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication, found = Replication(made.broker), list[int]()

    async def after(step: Coroutine[Any, Any, None]) -> None:
        await step
        await asyncio.gather(*replication._roles._confirming)
        found.append(sum(isinstance(call, Follow) for call in made.workers[1].calls))

    async def script() -> None:
        await after(replication.worker_returned(1))
        lose(made, 1)
        await after(replication.worker_lost(1))
        made.broker.links.add_worker(1, made.workers[1])
        await after(replication.worker_returned(1))

    asyncio.run(script())
    assert found == [1, 1, 2]
