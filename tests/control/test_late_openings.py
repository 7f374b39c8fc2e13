"""Logs that found no room when they were to be opened."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.control import late_openings
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.late_openings import keep_opening, open_late
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.messages import OpenPartition
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FakeWorker, World, world


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    """Six logs in two log dirs, which their IO worker could not open."""
    with world(tmp_path, dirs=2) as two_dirs:
        asyncio.run(create_topics(two_dirs.broker, [NewTopic("a", 6)]))
        refuse(two_dirs, ErrorCode.KAFKA_STORAGE_ERROR)
        yield two_dirs


def refuse(made: World, code: ErrorCode) -> None:
    made.worker.refuse[OpenPartition] = KafkaError(code)
    topic = made.broker.catalogue.topics["a"]
    made.broker.log_openings.without_room.clear()
    asyncio.run(made.broker.open_logs([(topic, topic.partitions)]))
    made.worker.calls.clear()


def opened(made: World) -> list[str]:
    """The log dirs of the logs that are to be opened, in order."""
    return [call.log_dir for call in made.worker.calls if isinstance(call, OpenPartition)]


def test_one_log_of_a_log_dir_is_tried_until_there_is_room(made: World) -> None:
    for _ in range(2):
        made.worker.calls.clear()
        assert asyncio.run(open_late(made.broker)) == 0
        assert sorted(opened(made)) == made.dirs
    made.worker.refuse.clear()
    made.worker.calls.clear()
    version = made.broker.version
    assert asyncio.run(open_late(made.broker)) == 6
    assert len(opened(made)) == 6
    assert made.broker.version > version, "a cached answer may show them as offline"
    assert asyncio.run(open_late(made.broker)) == 0


def test_a_failed_log_dir_is_left_to_the_next_start(made: World) -> None:
    made.worker.refuse.clear()
    made.broker.dir_errors.fail(made.dirs[0], errno.EIO)
    assert asyncio.run(open_late(made.broker)) == 3
    assert set(opened(made)) == {made.dirs[1]}
    assert not made.broker.log_openings.without_room


def test_a_damaged_log_is_not_tried_again(made: World) -> None:
    """Each attempt may read gigabytes."""
    refuse(made, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert asyncio.run(open_late(made.broker)) == 0
    assert opened(made) == []


def test_changes_of_a_topic_wait_for_its_logs(made: World) -> None:
    async def run() -> None:
        opening = asyncio.ensure_future(open_late(made.broker))
        while not made.worker.calls:
            await asyncio.sleep(0)
        assert made.broker.log_openings.pending("a")
        await made.broker.log_openings.wait(["a"])
        assert await opening == 6

    made.worker.refuse.clear()
    asyncio.run(run())


def test_coordinators_load_their_logs_that_are_open_now(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_openings, "RETRY_S", 0)

    async def run() -> None:
        loaded = asyncio.Event()

        async def load() -> None:
            loaded.set()

        keeping = asyncio.ensure_future(keep_opening(made.broker, load))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not loaded.is_set()
        made.worker.refuse.clear()
        await asyncio.wait_for(loaded.wait(), 60)
        keeping.cancel()

    asyncio.run(run())


def test_a_log_that_finds_no_room_does_not_keep_others_offline(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose index is longer than what is free: only the first log of a log dir was tried."""
    large = {each.slot for each in made.broker.catalogue.topics["a"].partitions[:2]}
    open_partition = FakeWorker._OpenPartition

    def too_large(worker: FakeWorker, call: OpenPartition) -> None:
        if call.slot in large:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        open_partition(worker, call)

    made.worker.refuse.clear()
    monkeypatch.setattr(FakeWorker, "_OpenPartition", too_large)
    assert [asyncio.run(open_late(made.broker)) for _ in range(3)] == [0, 4, 0]


def test_an_io_worker_without_descriptors_does_not_keep_logs_of_another_offline(tmp_path: Path) -> None:
    with world(tmp_path, workers=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 6)]))
        topic = made.broker.catalogue.topics["a"]
        for worker in made.workers:
            worker.refuse[OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        asyncio.run(made.broker.open_logs([(topic, topic.partitions)]))
        worker_of_first = topic.partitions[0].worker
        made.workers[1 - worker_of_first].refuse.clear()
        expected = sum(each.worker != worker_of_first for each in topic.partitions)
        assert asyncio.run(open_late(made.broker)) == expected > 0


def test_a_replica_that_was_removed_meanwhile_is_not_opened(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot may be of another log by then."""
    gone = made.broker.catalogue.topics["a"].partitions[3]
    open_partition = FakeWorker._OpenPartition

    def remove(worker: FakeWorker, call: OpenPartition) -> None:
        gone.replicas = []
        open_partition(worker, call)

    made.worker.refuse.clear()
    monkeypatch.setattr(FakeWorker, "_OpenPartition", remove)
    assert asyncio.run(open_late(made.broker)) == 5
    assert gone.slot not in {call.slot for call in made.worker.calls if isinstance(call, OpenPartition)}
