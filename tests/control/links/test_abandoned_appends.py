"""Appends of control when the IO worker of their leader hangs, and another replica leads."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kbroker.control.links.appender import Appender
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.ipc.layout import AppendEntry
from kbroker.ipc.shared import Shared, Sizes
from kbroker.protocol.errors import KafkaError
from tests.control.links.append_rings import Rings, until

Done = list[tuple[str, KafkaError | None]]


@pytest.fixture
def partition() -> Partition:
    """Led by IO worker 0."""
    made = Partition("t", 0, "/d", 3, 77)
    made.replicas.append(Replica("t", 0, "/e", 4, 78, worker=1))
    return made


def run(test: Callable[[Appender, Rings, Rings], Awaitable[None]]) -> None:
    async def body() -> None:
        memory = Shared(Sizes(2, 2, 16, 8, 1 << 16))
        appender = Appender(memory, 1)
        await appender.start()
        try:
            await test(appender, Rings(memory, 0), Rings(memory, 1))
        finally:
            appender.stop()

    asyncio.run(body())


def submit(appender: Appender, partition: Partition, content: bytes, done: Done) -> None:
    appender.submit(partition, content, lambda error: done.append((content.decode(), error)))


def lead_elsewhere(appender: Appender, partition: Partition) -> None:
    """IO worker 1 leads the partition from now on."""
    partition.leader = partition.replicas[1]
    appender.leaders_changed()


def test_a_batch_at_a_former_leader_is_appended_at_the_new_one(partition: Partition) -> None:
    async def test(appender: Appender, hanging: Rings, other: Rings) -> None:
        done: Done = []
        submit(appender, partition, b"old", done)
        (lost,) = await until(hanging.take)
        lead_elsewhere(appender, partition)
        (request,) = await until(other.take)
        assert other.bytes_of(request) == b"old"
        hanging.complete(lost[AppendEntry.TOKEN])  # it continues; its record is cut off
        appender._drain()
        assert done == []
        other.complete(request[AppendEntry.TOKEN])
        await until(lambda: done)
        assert done == [("old", None)]
        assert not appender._queues
        assert len(appender._space) == 0

    run(test)


def test_the_space_of_a_batch_that_a_hanging_worker_may_read_is_not_reused(partition: Partition) -> None:
    async def test(appender: Appender, hanging: Rings, other: Rings) -> None:
        done: Done = []
        submit(appender, partition, b"old", done)
        lead_elsewhere(appender, partition)
        (request,) = await until(other.take)
        other.complete(request[AppendEntry.TOKEN])
        await until(lambda: done)
        submit(appender, partition, b"new", done)
        (unread,) = hanging.take()
        assert hanging.bytes_of(unread) == b"old"

    run(test)


def test_a_worker_that_hangs_does_not_keep_the_arena_full(partition: Partition) -> None:
    async def test(appender: Appender, hanging: Rings, other: Rings) -> None:
        done: Done = []
        submit(appender, partition, b"old", done)
        lead_elsewhere(appender, partition)
        for _ in range(20):
            submit(appender, partition, b"new" * 3_000, done)
        while len(done) < 21:
            for request in await until(other.take):
                other.complete(request[AppendEntry.TOKEN])
            appender._drain()
        assert [error for _, error in done] == [None] * 21
        assert hanging.bytes_of(hanging.take()[0]) == b"old"

    run(test)


def test_later_batches_do_not_wait_for_a_leader_that_hangs(partition: Partition) -> None:
    async def test(appender: Appender, hanging: Rings, other: Rings) -> None:
        done: Done = []
        submit(appender, partition, b"old", done)
        await until(hanging.take)
        partition.leader = partition.replicas[1]
        submit(appender, partition, b"new", done)
        (request,) = await until(other.take)
        other.complete(request[AppendEntry.TOKEN])
        appender.leaders_changed()
        assert [content for content, _ in done] == ["old", "new"]
        assert done[0][1] is not None, "the new leader has a later record"
        assert done[1][1] is None

    run(test)
