"""Reassignments beside other changes of the same topic."""

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kbroker.control import log_openings
from kbroker.control.changes import log_closings
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication import reassignment
from kbroker.control.replication.reassignment import finish, reassign
from kbroker.control.replication.service import Replication
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc.messages import ClosePartition, Follow, Lead, OpenPartition
from kbroker.log import checkpoint
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FullStore, World


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


def test_a_topic_whose_logs_are_not_opened_is_refused_without_the_lock_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_openings, "OPEN_S", 0.05)
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(2))
    made = World(tmp_path, {"kbroker.replica.sites": dirs}, workers=2, dirs=2)
    broker = made.broker
    asyncio.run(create_topics(broker, [NewTopic("a", 1, 1)]))
    topic = broker.catalogue.topics["a"]

    async def refused() -> None:
        async with asyncio.timeout(30), broker.changing:
            await reassign(Replication(broker), topic, topic.partitions[0], [1, 2])

    with broker.log_openings.opening(["a"]), pytest.raises(KafkaError) as error:
        asyncio.run(refused())
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert broker.nodes.of(topic.partitions[0].replicas) == [1]
    broker.close()


def shape(made: World) -> tuple[int, int, list[int], list[int], list[int], list[int]]:
    """Leader, its epoch, replicas, those in sync, and those that are added and removed."""
    broker = made.broker
    partition = broker.catalogue.topics["a"].partitions[0]
    in_sync = [replica for replica in partition.replicas if replica.in_sync]
    replicas, together, adding, removing = map(
        broker.nodes.of, (partition.replicas, in_sync, partition.adding, partition.removing)
    )
    return (
        broker.nodes.node_of(partition.leader),
        partition.leader_epoch,
        replicas,
        together,
        adding,
        removing,
    )


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    """Three sites, and topic a with replicas on the first two."""
    dirs = ";".join(str(tmp_path / f"d{number}") for number in range(3))
    made = World(tmp_path, {"kbroker.replica.sites": dirs}, workers=3, dirs=3)
    asyncio.run(create_topics(made.broker, [NewTopic("a", assignments=((0, (1, 2)),))]))
    yield made
    made.broker.close()


def test_a_reassignment_that_cannot_be_stored_does_not_begin(made: World) -> None:
    replication, before = Replication(made.broker), shape(made)
    topic = made.broker.catalogue.topics["a"]
    store = FullStore(made)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(reassign(replication, topic, topic.partitions[0], [3, 2]))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert shape(made) == before == (1, 0, [1, 2], [1, 2], [], [])
    assert not made.workers[2].opened
    store.full = False
    asyncio.run(reassign(replication, topic, topic.partitions[0], [3, 2]))
    assert shape(made) == (1, 0, [3, 2, 1], [2, 1], [3], [1])
    assert len(made.workers[2].opened) == 1


@pytest.mark.parametrize("step", ["finish", "cancel"])
def test_the_end_of_a_reassignment_that_cannot_be_stored_is_taken_back(made: World, step: str) -> None:
    """Otherwise the new leader would take records that the next start does not know it has
    alone."""
    replication, topic = Replication(made.broker), made.broker.catalogue.topics["a"]
    partition = topic.partitions[0]
    asyncio.run(reassign(replication, topic, partition, [3, 2]))
    for replica in partition.replicas:
        replica.in_sync = True
    if step == "cancel":
        partition.leader = partition.adding[0]
    before, old = shape(made), partition.leader
    store = FullStore(made, takes=1 if step == "finish" else 0)

    def end() -> None:
        if step == "finish":
            asyncio.run(finish(replication, topic, partition))
        else:
            asyncio.run(reassign(replication, topic, partition, None))

    with pytest.raises(KafkaError) as refused:
        end()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert shape(made) == before
    calls = [call for call in made.workers[old.worker].calls if isinstance(call, (Lead, Follow))]
    assert [type(call) for call in calls[-2:]] == [Follow, Lead], "it leads again"
    assert calls[-1].leader_epoch == 0
    store.full = False
    end()
    leader, _, replicas, _, adding, removing = shape(made)
    assert (replicas, adding, removing) == ([3, 2] if step == "finish" else [2, 1], [], [])
    assert leader in replicas


def test_a_leader_does_not_stop_again_and_again_while_the_store_is_full(made: World) -> None:
    """The end of a reassignment is tried at each check."""
    replication, topic = Replication(made.broker), made.broker.catalogue.topics["a"]
    partition = topic.partitions[0]
    asyncio.run(reassign(replication, topic, partition, [3, 2]))
    for replica in partition.replicas:
        replica.in_sync = True
    before, calls = shape(made), made.workers[partition.worker].calls
    FullStore(made)
    count = len(calls)
    for _ in range(2):
        with pytest.raises(KafkaError):
            asyncio.run(finish(replication, topic, partition))
    assert shape(made) == before
    assert len(calls) == count


def moved_there_and_back(made: World) -> Path:
    """A replica leaves the first node, but its deletion is still stored when the node gets a
    replica again. Returns a file in its folder."""
    replication, topic = Replication(made.broker), made.broker.catalogue.topics["a"]
    partition = topic.partitions[0]
    asyncio.run(reassign(replication, topic, partition, [3, 2]))
    for replica in partition.replicas:
        replica.in_sync = True
    (former,) = partition.removing
    asyncio.run(finish(replication, topic, partition))
    assert shape(made)[2] == [3, 2]
    change = Change(deletions=[Deletion(topic.topic_id, former)])
    asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
    asyncio.run(reassign(replication, topic, partition, [1, 2]))
    for replica in partition.replicas:
        replica.in_sync = True
    asyncio.run(finish(replication, topic, partition))
    assert shape(made)[2] == [1, 2]
    folder = Path(partition.folder)
    checkpoint.write_topic_id(str(folder), topic.topic_id)
    records = folder / "records"
    records.touch()
    return records


@pytest.mark.parametrize("restart", ["control", "broker"])
def test_a_start_keeps_the_folder_of_a_replica_that_came_back(made: World, restart: str) -> None:
    """The deletion of the former one was still stored. The start renamed the new one's folder, and
    an empty log was in sync."""
    records = moved_there_and_back(made)
    if restart == "broker":
        made.reboot()
    else:
        made.broker.close()
        made.start()
        for number, worker in enumerate(made.workers):
            asyncio.run(log_closings.close_orphans(made.broker, number, worker))
    assert records.exists()
    made.broker.close()
    made.start()
    assert not made.broker.orphans


def test_a_topic_with_a_replica_that_came_back_can_be_deleted(made: World) -> None:
    """The store refused the second deletion of a log in the same place."""
    moved_there_and_back(made)
    topic = made.broker.catalogue.topics["a"]
    assert asyncio.run(delete_topics(made.broker, lambda: [topic])) == [None]
    made.reboot()
    assert not made.broker.catalogue.topics


def test_a_worker_that_hangs_does_not_hold_up_a_reassignment(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It closes the former replica later. Until then no new one has its folder."""
    monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)
    replication, topic = Replication(made.broker), made.broker.catalogue.topics["a"]
    partition = topic.partitions[0]
    hanging, continued = made.workers[partition.worker], asyncio.Event()
    call = hanging.call

    async def hang(body: object) -> object:
        await continued.wait()
        return await call(body)

    def called(body: object) -> Awaitable[object]:
        return hang(body) if isinstance(body, ClosePartition) else call(body)

    async def test() -> None:
        await reassign(replication, topic, partition, [3, 2])
        for replica in partition.replicas:
            replica.in_sync = True
        monkeypatch.setattr(hanging, "call", called)
        await asyncio.wait_for(finish(replication, topic, partition), 60)
        assert shape(made)[2] == [3, 2]
        with pytest.raises(KafkaError) as refused:
            await reassign(replication, topic, partition, [1, 2])
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        continued.set()
        await made.broker.late_closings.wait(60)
        await reassign(replication, topic, partition, [1, 2])
        assert shape(made)[4:] == ([1], [3])

    asyncio.run(test())


def test_a_replica_that_finds_no_room_after_a_while_is_opened_later(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error was dropped with the call, and its log stayed closed until a restart."""
    monkeypatch.setattr(reassignment, "OPEN_S", 0.01)
    replication, topic = Replication(made.broker), made.broker.catalogue.topics["a"]
    moved, continued = topic.partitions[0], asyncio.Event()

    async def refuse() -> None:
        await continued.wait()
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "too many open files")

    async def test() -> None:
        for worker in made.workers:
            call = worker.call
            called = partial(lambda call, body: refuse() if is_new(body) else call(body), call)
            monkeypatch.setattr(worker, "call", called)
        await asyncio.wait_for(reassign(replication, topic, moved, [3, 2]), 60)
        (new,) = moved.adding
        assert not made.broker.log_openings.without_room
        continued.set()
        while not made.broker.log_openings.without_room:
            await asyncio.sleep(0)
        assert list(made.broker.log_openings.without_room) == [(new.slot, new.generation)]

    def is_new(body: object) -> bool:
        return isinstance(body, OpenPartition) and body.slot == moved.adding[0].slot

    asyncio.run(asyncio.wait_for(test(), 60))
