"""Deletions beside an IO worker that hangs, and those that a disk refuses."""

import asyncio
import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from kbroker.control import log_openings
from kbroker.control.changes import log_closings
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.control.store.change import Deletion
from kbroker.ipc.messages import ClosePartition
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.changes.deleted_folders import begin_deletion, mark, suffixes
from tests.control.fakes import FakeWorker, FullStore, World, world


def test_only_the_first_deletion_waits_for_a_worker_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them waited, while no other change could begin: a client that deletes topics one by
    one, and the end of each reassignment, before replicas were checked again."""

    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic(name) for name in "abcd"])
        topics = {name: made.broker.catalogue.topics[name] for name in "abcd"}
        continued, call = asyncio.Event(), made.worker.call

        async def hang(body: object) -> object:
            await continued.wait()
            return await call(body)

        async def delete(name: str) -> None:
            assert await delete_topics(made.broker, lambda: [topics[name]]) == [None]

        monkeypatch.setattr(made.worker, "call", hang)
        with monkeypatch.context() as impatient:
            impatient.setattr(log_closings, "CLOSE_S", 0.01)
            await delete("a")
        monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
        for name in "bc":
            await asyncio.wait_for(delete(name), 60)
        assert all(made.broker.closing.pending(name) for name in "abc")
        continued.set()
        await made.broker.late_closings.wait(60)
        assert not any(made.broker.closing.pending(name) for name in "abc")
        await asyncio.wait_for(delete("d"), 60)
        assert not made.broker.closing.pending("d"), "it has waited again"
        assert not made.worker.opened

    with world(tmp_path) as made:
        asyncio.run(test(made))


@pytest.mark.parametrize(("partitions", "answered"), [(3, False), (4, True)])
def test_a_large_deletion_is_answered_before_its_logs_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int, answered: bool
) -> None:
    """Until then its name is not free, and a small deletion waits for the same worker."""

    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a", partitions), NewTopic("b")])
        await made.broker.log_openings.wait(["a", "b"])
        topics = dict(made.broker.catalogue.topics)
        continued, call = asyncio.Event(), made.worker.call

        async def hang(body: object) -> object:
            await continued.wait()
            return await call(body)

        def delete(name: str) -> "asyncio.Future[list[KafkaError | None]]":
            return asyncio.ensure_future(delete_topics(made.broker, lambda: [topics[name]]))

        monkeypatch.setattr(made.worker, "call", hang)
        large = delete("a")
        await asyncio.wait([large], timeout=60 if answered else 0.2)
        assert large.done() is answered
        assert "a" not in made.broker.catalogue.topics
        small = delete("b")
        creation = asyncio.ensure_future(create_topics(made.broker, [NewTopic("a")]))
        await asyncio.sleep(0.2)
        assert not small.done()
        assert not creation.done()
        continued.set()
        assert [await large, await small] == [[None], [None]]
        assert isinstance((await creation)["a"], TopicPlan)
        await made.broker.late_closings.wait(60)
        assert not made.broker.closing.pending("a")
        assert len(made.worker.opened) == 1

    monkeypatch.setattr(log_openings, "MAX_AWAITED", 3)
    monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
    with world(tmp_path) as made:
        asyncio.run(test(made))


LIMIT_S = 60


def refuse_once(worker: FakeWorker) -> None:
    """The IO worker closes a log although it cannot rename the folder; then it does not know it."""

    def close(call: ClosePartition) -> None:
        if worker.opened.pop(call.slot, None) is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "read-only")

    vars(worker)["_ClosePartition"] = close


class ReadOnlyDisk:
    """Renames fail while it is read-only. refused_folders: only theirs, None: all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read_only, self.refused = True, 0
        self.refused_folders: set[str] | None = None
        self._rename = os.rename
        monkeypatch.setattr(os, "rename", self)
        monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)
        monkeypatch.setattr(log_closings, "RETRY_S", 0.01)

    def __call__(self, *paths: Any) -> None:
        if self.read_only and (self.refused_folders is None or Path(paths[0]).name in self.refused_folders):
            self.refused += 1
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self._rename(*paths)

    async def refuses(self, count: int) -> None:
        """Wait until it has refused so many renames."""
        async with asyncio.timeout(LIMIT_S):
            while self.refused < count:
                await asyncio.sleep(0.001)


def test_a_deletion_that_the_disk_refuses_is_retried_until_the_folder_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed as it was until the next start of the broker."""

    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a")])
        topic = made.broker.catalogue.topics["a"]
        mark(topic.partitions[0], topic.topic_id)
        refuse_once(made.worker)
        disk = ReadOnlyDisk(monkeypatch)
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        assert not made.broker.catalogue.topics
        await disk.refuses(3)
        refused = (await create_topics(made.broker, [NewTopic("a")]))["a"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS, (
            "its log would be in the folder of the deleted one"
        )
        disk.read_only = False
        async with asyncio.timeout(LIMIT_S):
            await made.broker.closing.wait(["a"])
        (left,) = Path(made.dirs[0]).glob("a-0*")
        assert left.name.endswith("-delete")
        assert await made.broker.in_store(lambda store: store.deletions()) == []
        assert isinstance((await create_topics(made.broker, [NewTopic("a")]))["a"], TopicPlan)
        assert made.broker.catalogue.topics["a"].partitions[0].slot == topic.partitions[0].slot

    with world(tmp_path) as made:
        asyncio.run(test(made))


def test_a_deletion_in_a_log_dir_that_goes_offline_waits_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a")])
        topic = made.broker.catalogue.topics["a"]
        mark(topic.partitions[0], topic.topic_id)
        refuse_once(made.worker)
        disk = ReadOnlyDisk(monkeypatch)
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        assert made.broker.closing.pending("a")
        await disk.refuses(2)
        made.broker.dir_errors.fail(made.dirs[0], errno.EROFS)
        async with asyncio.timeout(LIMIT_S):
            await made.broker.closing.wait(["a"])
        assert len(await made.broker.in_store(lambda store: store.deletions())) == 1

    with world(tmp_path) as made:
        asyncio.run(test(made))


async def created(made: World, name: str, partitions: int = 1) -> Topic:
    """A topic whose logs the IO worker closes once without renaming their folders."""
    await create_topics(made.broker, [NewTopic(name, partitions)])
    topic = made.broker.catalogue.topics[name]
    for partition in topic.partitions:
        mark(partition, topic.topic_id)
    refuse_once(made.worker)
    return topic


async def becomes_free(made: World, name: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        await made.broker.closing.wait([name])


def test_a_deletion_whose_end_cannot_be_stored_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeleteTopics failed although the topic was deleted, and folders that the disk refused were
    not retried: the name was free."""

    async def test(made: World) -> None:
        topic = await created(made, "a", 2)
        made.worker.opened.clear()  # it has died, and its successor does not know the logs
        disk = ReadOnlyDisk(monkeypatch)
        monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
        disk.refused_folders = {"a-1"}
        store = FullStore(made, takes=1)
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        assert suffixes(made, "a") == ["delete"]
        assert made.broker.closing.pending("a")
        await disk.refuses(2)
        assert made.broker.closing.pending("a")
        store.full = disk.read_only = False
        await becomes_free(made, "a")
        assert not Path(topic.partitions[1].folder).exists()
        assert await made.broker.in_store(lambda store: store.deletions()) == []
        assert isinstance((await create_topics(made.broker, [NewTopic("a")]))["a"], TopicPlan)

    with world(tmp_path) as made:
        asyncio.run(test(made))


def test_a_name_is_free_when_its_logs_are_removed_although_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: World) -> None:
        topics = [await created(made, name) for name in "ab"]
        disk = ReadOnlyDisk(monkeypatch)
        assert await delete_topics(made.broker, lambda: topics) == [None, None]
        assert all(made.broker.closing.pending(name) for name in "ab")
        disk.refused_folders = {"b-0"}
        await becomes_free(made, "a")
        assert made.broker.closing.pending("b")
        assert isinstance((await create_topics(made.broker, [NewTopic("a")]))["a"], TopicPlan)
        disk.read_only = False
        await becomes_free(made, "b")

    with world(tmp_path) as made:
        asyncio.run(test(made))


def test_an_attempt_that_fails_for_another_reason_does_not_free_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(made: World) -> None:
        topic = await created(made, "a")
        monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
        monkeypatch.setattr(log_closings, "RETRY_S", 0.01)
        with monkeypatch.context() as broken:
            broken.setattr(log_closings, "retire_all", None)
            assert await delete_topics(made.broker, lambda: [topic]) == [None]
            assert "1 deletions failed" in caplog.text
            async with asyncio.timeout(LIMIT_S):
                while "a retry of 1 deletions failed" not in caplog.text:
                    await asyncio.sleep(0.001)
            assert made.broker.closing.pending("a")
        await becomes_free(made, "a")
        assert await made.broker.in_store(lambda store: store.deletions()) == []

    with world(tmp_path) as made:
        asyncio.run(test(made))


def test_an_existing_topic_with_a_former_replica_that_is_not_removed_is_not_marked_for_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CreateTopics waited, too."""

    async def test(made: World) -> None:
        topic = await created(made, "a")
        disk = ReadOnlyDisk(monkeypatch)
        monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
        former = Deletion(topic.topic_id, topic.partitions[0].replicas[0])
        with caplog.at_level(logging.WARNING):
            await log_closings.close_deleted(made.broker, [former])
            await disk.refuses(2)
        assert made.broker.closing.pending("a")
        assert "1 deleted logs of 1 topics are not removed yet" in caplog.text
        refused = (await asyncio.wait_for(create_topics(made.broker, [NewTopic("a")]), 60))["a"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert refused.message == "Topic 'a' already exists."
        disk.read_only = False
        await becomes_free(made, "a")

    with world(tmp_path) as made:
        asyncio.run(test(made))


def test_a_deletion_that_the_disk_refuses_at_a_start_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was free, and the IO worker could not open the new topic's log in the folder. Its
    slot is another log's by now, which stays open."""

    async def test(made: World, one: Deletion) -> None:
        await create_topics(made.broker, [NewTopic("b")])
        (b,) = made.broker.catalogue.topics["b"].partitions
        assert b.slot == one.partition.slot
        refused = (await create_topics(made.broker, [NewTopic("a")]))["a"]
        assert isinstance(refused, KafkaError)
        assert "marked for deletion" in refused.message
        log_closings.retry_refused(made.broker)
        await disk.refuses(3)
        assert made.broker.closing.pending("a")
        disk.read_only = False
        await becomes_free(made, "a")
        assert suffixes(made, "a") == ["delete"]
        assert await made.broker.in_store(lambda store: store.deletions()) == []
        assert isinstance((await create_topics(made.broker, [NewTopic("a")]))["a"], TopicPlan)
        assert made.broker.catalogue.topics["a"].partitions[0].slot != b.slot
        assert not [call for call in made.worker.calls if isinstance(call, ClosePartition)]

    with world(tmp_path) as made:
        one = begin_deletion(made)
        disk = ReadOnlyDisk(monkeypatch)
        disk.refused_folders = {"a-0"}
        made.reboot()
        assert disk.refused == 1
        asyncio.run(test(made, one))
