"""Appends of the control process: its ring and arena on one side, a pretended IO worker on the
other."""

import asyncio
import os
from functools import partial

import pytest

from kbroker.control.links.appender import DEFAULT_TIMEOUT_MS, Appender
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import AppendEntry, Operation, ProcessLine
from kbroker.ipc.ring import ring_length
from kbroker.ipc.shared import Shared, Sizes
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.links.append_rings import Rings, run, until

PARTITION = Partition("t", 0, "/d", 3, 77, worker=0)


def test_a_batch_travels_with_its_slot_and_comes_back_with_its_offset() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"batch" * 9, timeout_ms=5000))
        (request,) = await until(rings.take)
        assert request[AppendEntry.OPERATION] == Operation.APPEND
        assert request[AppendEntry.SLOT] == 3
        assert request[AppendEntry.GENERATION] == 77
        assert rings.bytes_of(request) == b"batch" * 9
        acks = request[AppendEntry.ACKS] & 0xFFFF
        assert acks == 0xFFFF
        assert 0 < request[AppendEntry.ACKS] >> 16 <= 5000
        rings.complete(request[AppendEntry.TOKEN], base_offset=42)
        assert await appending == 42

    run(test)


def test_a_batch_that_the_arena_cannot_hold_is_refused() -> None:
    """An exception at once, in a callback of the loop, left its operation and its key waiting."""

    async def test(appender: Appender, rings: Rings) -> None:
        large = bytes((1 << 16) + 1)
        ended: list[KafkaError | None] = []
        appender.submit(PARTITION, large, ended.append)
        with pytest.raises(KafkaError) as refused:
            await appender.append(PARTITION, large)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert [error and error.code for error in ended] == [ErrorCode.MESSAGE_TOO_LARGE]
        appending = asyncio.ensure_future(appender.append(PARTITION, bytes(1 << 16)))
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], base_offset=3)
        assert await appending == 3

    run(test)


def test_an_io_worker_that_sleeps_is_woken_once_for_the_batches_of_a_turn() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        worker = rings.shared.worker_process(0)
        rings.shared.processes[worker, ProcessLine.SLEEPING] = 1
        for _ in range(3):
            appender.submit(PARTITION, b"batch", lambda _: None)
        await until(lambda: not rings.shared.processes[worker, ProcessLine.SLEEPING])
        assert os.eventfd_read(rings.shared.event_fds[worker]) == 1
        assert len(rings.take()) == 3

    run(test)


def test_completions_find_their_appends_in_any_order() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = [asyncio.ensure_future(appender.append(PARTITION, bytes([n]) * 10)) for n in range(6)]
        requests: list[list[int]] = []
        while len(requests) < 6:
            requests += await until(rings.take)
        for request in reversed(requests):
            rings.complete(request[AppendEntry.TOKEN], base_offset=rings.bytes_of(request)[0])
        assert await asyncio.gather(*appending) == list(range(6))

    run(test)


def test_an_error_is_raised_with_its_code() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"x"))
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_ENOUGH_REPLICAS)
        with pytest.raises(KafkaError) as refused:
            await appending
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS

    run(test)


def test_an_append_survives_the_restart_of_its_worker() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"x"))
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        (again,) = await until(rings.take)
        assert again[AppendEntry.TOKEN] != request[AppendEntry.TOKEN]
        rings.complete(again[AppendEntry.TOKEN], base_offset=1)
        assert await appending == 1

    run(test)


def test_a_batch_that_a_dead_worker_took_is_appended_again() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        taken = asyncio.ensure_future(appender.append(PARTITION, b"taken"))
        (lost,) = await until(rings.take)
        left = asyncio.ensure_future(appender.append(PARTITION, b"left"))
        await until(lambda: ring_length(rings.requests))
        appender.worker_restarted(0)
        (unread,) = await until(rings.take)  # by the successor, which has not opened the log yet
        assert rings.bytes_of(unread) == b"left"
        rings.complete(unread[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for offset, content in enumerate((b"taken", b"left")):
            (request,) = await until(rings.take)
            assert rings.bytes_of(request) == content
            assert request[AppendEntry.TOKEN] not in (lost[AppendEntry.TOKEN], unread[AppendEntry.TOKEN])
            rings.complete(request[AppendEntry.TOKEN], base_offset=offset)
        assert await asyncio.gather(taken, left) == [0, 1]

    run(test)


def test_without_a_worker_the_timeout_ends_the_append() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"x", timeout_ms=0))
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        with pytest.raises(KafkaError) as refused:
            await appending
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(test)


def test_completions_of_a_dead_predecessor_are_dropped() -> None:
    shared = Shared(Sizes(2, 1, 16, 8, 1 << 16))
    old: list[list[int]] = []

    async def first(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"old"))
        old.extend(await until(rings.take))
        appending.cancel()

    async def second(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"new"))
        (request,) = await until(rings.take)
        rings.complete(old[0][AppendEntry.TOKEN], base_offset=1)
        rings.complete(request[AppendEntry.TOKEN], base_offset=2)
        assert await appending == 2

    run(first, epoch=1, shared=shared)
    run(second, epoch=2, shared=shared)


def test_more_appends_than_ring_and_arena_hold_wait_for_room() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        content = bytes(10_000)
        appending = [asyncio.ensure_future(appender.append(PARTITION, content)) for _ in range(40)]
        done = 0
        while done < 40:
            for request in await until(rings.take):
                rings.complete(request[AppendEntry.TOKEN], base_offset=done)
                done += 1
        assert sorted(await asyncio.gather(*appending)) == list(range(40))

    run(test)


def test_tokens_of_high_epochs_come_back_unchanged() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        appending = asyncio.ensure_future(appender.append(PARTITION, b"x"))
        (request,) = await until(rings.take)
        assert request[AppendEntry.TOKEN] < 0
        rings.complete(request[AppendEntry.TOKEN], base_offset=5)
        assert await appending == 5

    run(test, epoch=0xFFFF)


async def served(rings: Rings, count: int) -> None:
    """As an IO worker that appends whatever comes."""
    done = 0
    while done < count:
        for request in await until(rings.take):
            rings.complete(request[AppendEntry.TOKEN], base_offset=done)
            done += 1


def test_a_submitted_batch_is_done_when_every_replica_has_it() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        appender.submit(PARTITION, b"batch" * 9, done.append)
        (request,) = await until(rings.take)
        assert rings.bytes_of(request) == b"batch" * 9
        assert request[AppendEntry.ACKS] & 0xFFFF == 0xFFFF
        assert request[AppendEntry.ACKS] >> 16 == DEFAULT_TIMEOUT_MS
        assert (done, appender.is_idle(PARTITION)) == ([], False)
        rings.complete(request[AppendEntry.TOKEN], base_offset=7)
        await until(lambda: done)
        assert (done, appender.is_idle(PARTITION)) == ([None], True)
        assert len(appender._space) == 0

    run(test)


def test_a_submitted_batch_may_have_its_own_timeout() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        appender.submit(PARTITION, b"x", done.append, timeout_ms=1)
        (request,) = await until(rings.take)
        assert request[AppendEntry.ACKS] >> 16 == 1
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        while not done:  # retried until then
            for again in rings.take():
                rings.complete(again[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await asyncio.sleep(0.001)
        assert [error.code for error in done if error] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(test)


def test_a_submitted_batch_that_is_refused_ends_with_the_error() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        appender.submit(PARTITION, b"x", done.append)
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_ENOUGH_REPLICAS)
        await until(lambda: done)
        assert [error.code for error in done if error] == [ErrorCode.NOT_ENOUGH_REPLICAS]

    run(test)


def test_a_submitted_batch_survives_the_restart_of_its_worker() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        appender.submit(PARTITION, b"x", done.append)
        (request,) = await until(rings.take)
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        (again,) = await until(rings.take)
        assert again[AppendEntry.TOKEN] != request[AppendEntry.TOKEN]
        assert done == []
        rings.complete(again[AppendEntry.TOKEN], base_offset=1)
        await until(lambda: done)
        assert done == [None]

    run(test)


@pytest.mark.parametrize("size", [100, 10_000])
def test_submitted_batches_wait_for_room_in_ring_and_arena_and_keep_none(size: int) -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        for _ in range(20):
            appender.submit(PARTITION, bytes(size), done.append)
        await served(rings, 20)
        await until(lambda: len(done) == 20)
        assert done == [None] * 20
        assert len(appender._space) == 0

    run(test)


def test_a_retried_batch_stays_before_later_ones_of_its_partition() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[str] = []
        appender.submit(PARTITION, b"old", lambda _: done.append("old"))
        (refused,) = await until(rings.take)
        rings.complete(refused[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appender._drain()
        appender.submit(PARTITION, b"new", lambda _: done.append("new"))
        for content in (b"old", b"new"):
            (request,) = await until(rings.take)
            assert rings.bytes_of(request) == content
            rings.complete(request[AppendEntry.TOKEN])
        await until(lambda: len(done) == 2)
        assert done == ["old", "new"]
        assert not appender._queues
        assert not appender._timers

    run(test)


def test_a_refused_batch_fails_if_a_later_one_of_its_partition_is_written() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[tuple[str, KafkaError | None]] = []
        appender.submit(PARTITION, b"old", lambda error: done.append(("old", error)))
        appender.submit(PARTITION, b"new", lambda error: done.append(("new", error)))
        old, new = await until(rings.take)
        rings.complete(old[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        rings.complete(new[AppendEntry.TOKEN])
        await until(lambda: len(done) == 2)
        (first, error), last = done
        assert (first, last) == ("old", ("new", None))
        assert error is not None
        assert error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert not appender._queues

    run(test)


def test_a_small_batch_does_not_overtake_a_large_one_that_waits_for_room() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[int] = []
        sizes = [40_000, 40_000, 64]

        def note(size: int, _: KafkaError | None) -> None:
            done.append(size)

        for size in sizes:
            appender.submit(PARTITION, bytes(size), partial(note, size))
        written: list[int] = []
        while len(written) < 3:
            for request in await until(rings.take):
                written.append(request[AppendEntry.LENGTH])
                rings.complete(request[AppendEntry.TOKEN])
        await until(lambda: len(done) == 3)
        assert written == done == sizes

    run(test)


def test_another_partition_does_not_wait_for_a_refused_batch() -> None:
    async def test(appender: Appender, rings: Rings) -> None:
        done: list[KafkaError | None] = []
        appender.submit(PARTITION, b"old", lambda _: None)
        (refused,) = await until(rings.take)
        rings.complete(refused[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appender._drain()
        appender.submit(Partition("t", 1, "/d", 4, 78, worker=0), b"other", done.append)
        (request,) = rings.take()
        assert rings.bytes_of(request) == b"other"
        rings.complete(request[AppendEntry.TOKEN])
        await until(lambda: done)

    run(test)


def test_a_stopped_appender_retries_nothing() -> None:
    async def body() -> None:
        shared = Shared(Sizes(2, 1, 16, 8, 1 << 16))
        appender, rings = Appender(shared, 1), Rings(shared)
        await appender.start()
        appender.submit(PARTITION, b"x", lambda _: None)
        (request,) = rings.take()
        rings.complete(request[AppendEntry.TOKEN], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        appender._drain()
        (timer,) = appender._timers.values()
        appender.stop()
        assert timer.cancelled()

    asyncio.run(body())


def test_an_answer_that_arrives_while_the_process_goes_to_sleep_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker saw a process that is awake, and woke none."""

    async def test(appender: Appender, rings: Rings) -> None:
        answers: list[object] = []
        appender.submit(PARTITION, b"batch", answers.append)
        (request,) = await until(rings.take)
        announce = appender._sleeper.announce

        def announced_late() -> None:
            rings.complete(request[AppendEntry.TOKEN], base_offset=42)
            announce()

        monkeypatch.setattr(appender._sleeper, "announce", announced_late)
        appender._on_event()
        assert len(answers) == 1

    run(test)
