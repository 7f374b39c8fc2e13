"""Deletions that a crash interrupted: the topic never comes back, its slot is free only when no
process works with it."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes import log_closings
from kbroker.control.changes.log_closings import close_orphans
from kbroker.control.changes.move_targets import remember
from kbroker.control.changes.retirement import retire_all
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.links import links
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import ClosePartition
from kbroker.log import files
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.changes.deleted_folders import begin_deletion, mark, mark_folder, suffixes
from tests.control.fakes import World, world


def folders(made: World) -> list[str]:
    return sorted(path.name for path in Path(made.dirs[0]).iterdir() if path.is_dir())


def test_a_leftover_folder_is_not_adopted_at_the_next_start(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        begin_deletion(made)
        made.reboot()
        assert not made.broker.catalogue.topics
        (left,) = folders(made)
        assert left.startswith("a-0.")
        assert left.endswith("-delete")
        made.reboot()
        assert not made.broker.catalogue.topics


def test_a_successor_of_control_has_the_log_closed_before_the_slot_is_used_again(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        one = begin_deletion(made)
        worker = made.worker
        made.broker.close()
        made.start()
        assert [orphan.partition.slot for orphan in made.broker.orphans] == [one.partition.slot]
        assert not made.broker.catalogue.topics
        asyncio.run(create_topics(made.broker, [NewTopic("b")]))
        assert made.broker.catalogue.topics["b"].partitions[0].slot != one.partition.slot
        asyncio.run(close_orphans(made.broker, 0, worker))
        assert ClosePartition(one.partition.slot) in worker.calls
        asyncio.run(create_topics(made.broker, [NewTopic("c")]))
        assert made.broker.catalogue.topics["c"].partitions[0].slot == one.partition.slot
        assert folders(made) == ["b-0", "c-0"]


def test_a_successor_of_control_does_not_compare_all_interrupted_deletions_with_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten thousand logs that took more than 20 s of its start."""
    compared = 0

    def equal(one: Deletion, other: object) -> bool:
        nonlocal compared
        compared += 1
        return isinstance(other, Deletion) and one.partition is other.partition

    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 12)]))
        topic = made.broker.catalogue.topics["a"]
        gone = [Deletion(topic.topic_id, replica) for p in topic.partitions for replica in p.replicas]
        change = Change(deleted_topics=["a"], deletions=gone)
        asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
        made.broker.close()
        monkeypatch.setattr(Deletion, "__eq__", equal)
        made.start()
        assert len(made.broker.orphans) == 12
        assert compared <= 12


def test_a_worker_that_did_not_know_the_log_any_more_leaves_no_folder(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        topic = made.broker.catalogue.topics["a"]
        mark(topic.partitions[0], topic.topic_id)
        made.worker.opened.clear()  # it has died, and its successor did not learn of a deleted topic
        asyncio.run(delete_topics(made.broker, lambda: [topic]))
        assert [name.endswith("-delete") for name in folders(made)] == [True]
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        assert "a-0" in folders(made)


def test_a_log_that_could_not_be_closed_keeps_its_slot_and_is_tried_again(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        topic = made.broker.catalogue.topics["a"]
        mark(topic.partitions[0], topic.topic_id)
        made.worker.refuse[ClosePartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        assert asyncio.run(delete_topics(made.broker, lambda: [topic])) == [None]
        asyncio.run(create_topics(made.broker, [NewTopic("b")]))
        assert made.broker.catalogue.topics["b"].partitions[0].slot != topic.partitions[0].slot
        made.reboot()
        assert list(made.broker.catalogue.topics) == ["b"]
        assert [name for name in folders(made) if not name.endswith("-delete")] == ["b-0"]


def test_a_worker_that_hangs_is_not_waited_for_and_closes_the_logs_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)

    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a", 2)])
        topic = made.broker.catalogue.topics["a"]
        hanging, working = (p.slot for p in topic.partitions)
        closed, call = asyncio.Event(), made.worker.call

        async def hang(body: object) -> object:
            await closed.wait()
            return await call(body)

        monkeypatch.setattr(
            made.worker,
            "call",
            lambda body: hang(body) if body == ClosePartition(hanging) else call(body),
        )
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        assert not made.broker.catalogue.topics
        refused = (await create_topics(made.broker, [NewTopic("a"), NewTopic("b")]))["a"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert made.broker.catalogue.topics["b"].partitions[0].slot != hanging
        closed.set()
        await made.broker.late_closings.wait(60)
        assert isinstance((await create_topics(made.broker, [NewTopic("a", 2)]))["a"], TopicPlan)
        assert {hanging, working} == {p.slot for p in made.broker.catalogue.topics["a"].partitions}

    with world(tmp_path) as made:
        asyncio.run(test(made))


@pytest.mark.parametrize("topic_id", [b"other topic's id", None])
def test_a_folder_of_another_topic_is_kept(tmp_path: Path, topic_id: bytes | None) -> None:
    partition = Replica("a", 0, str(tmp_path), 0, 1)
    Path(partition.folder).mkdir()
    if topic_id is not None:
        mark(partition, topic_id)
    one = Deletion(b"deleted topic id", partition)
    assert retire_all([one]) == [one]
    assert Path(partition.folder).is_dir()


def test_a_directory_that_is_offline_may_bring_its_folder_back(tmp_path: Path) -> None:
    assert retire_all([Deletion(b"deleted topic id", Replica("a", 0, str(tmp_path / "gone"), 0, 1))]) == []


def test_a_worker_may_be_about_to_open_a_log_whose_slot_says_that_it_is_deleted(tmp_path: Path) -> None:
    """It is the state of the log before. The call to open this one, of the control process that
    died, may be on its way to the worker, which would leave a folder of no topic."""
    with world(tmp_path) as made:
        one = begin_deletion(made)
        made.shared.slots[one.partition.slot, Slot.STATE] = SlotState.DELETED
        made.broker.close()
        made.start()
        assert [orphan.partition.slot for orphan in made.broker.orphans] == [one.partition.slot]
        assert folders(made) == ["a-0"]
        asyncio.run(close_orphans(made.broker, 0, made.worker))
        assert [name.endswith("-delete") for name in folders(made)] == [True]


def test_the_name_of_a_topic_whose_deletion_was_interrupted_is_free_once_its_logs_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the worker, which may hang, would rename the folders of the new topic."""

    async def test(made: World) -> None:
        with monkeypatch.context() as hanging:
            hanging.setattr(log_closings, "CLOSE_S", 0.01)
            refused = (await create_topics(made.broker, [NewTopic("a"), NewTopic("b")]))["a"]
        assert isinstance(refused, KafkaError)
        assert "marked for deletion" in refused.message
        creating = asyncio.ensure_future(create_topics(made.broker, [NewTopic("a")]))
        await asyncio.sleep(0.01)
        assert not creating.done()
        await close_orphans(made.broker, 0, made.worker)
        assert isinstance((await creating)["a"], TopicPlan)

    with world(tmp_path) as made:
        begin_deletion(made)
        made.broker.close()
        made.start()
        asyncio.run(test(made))
        assert sorted(made.broker.catalogue.topics) == ["a", "b"]


def test_the_slot_of_a_log_is_freed_once_although_its_worker_dies_meanwhile(tmp_path: Path) -> None:
    """The successor is served before the deletion is stored as finished. Two logs got one slot, and
    only one of them a folder."""

    async def test(made: World, slot: int) -> None:
        await create_topics(made.broker, [NewTopic("other")])  # its slot is above the one to be freed
        in_store, released = made.broker.in_store, asyncio.Event()

        async def slow(step: object) -> object:
            await released.wait()
            return await in_store(step)

        vars(made.broker)["in_store"] = slow
        greetings = [asyncio.ensure_future(close_orphans(made.broker, 0, made.worker)) for _ in range(2)]
        await asyncio.sleep(0.05)
        greetings.append(asyncio.ensure_future(close_orphans(made.broker, 0, made.worker)))
        await asyncio.sleep(0.05)
        released.set()
        await asyncio.gather(*greetings)
        created = await create_topics(made.broker, [NewTopic(name) for name in "abc"])
        assert all(isinstance(plan, TopicPlan) for _, plan in created.items())
        slots = [replica.slot for replica in made.broker.catalogue.replicas()]
        assert slot in slots
        assert len(set(slots)) == 4

    with world(tmp_path) as made:
        one = begin_deletion(made)
        made.broker.close()
        made.start()
        asyncio.run(test(made, one.partition.slot))
        assert [name for name in folders(made) if not name.endswith("-delete")] == [
            "a-0",
            "b-0",
            "c-0",
            "other-0",
        ]


def test_a_log_of_a_worker_that_is_away_for_long_is_closed_by_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic("a")])
        monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)
        monkeypatch.setattr(links, "CALL_TIMEOUT_S", 0.01)
        topic = made.broker.catalogue.topics["a"]
        mark(topic.partitions[0], topic.topic_id)
        made.broker.links.lost(made.worker)
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        await asyncio.sleep(0.1)
        assert folders(made) == ["a-0"]
        assert made.broker.closing.pending("a")
        made.broker.links.add_worker(0, made.worker)
        await made.broker.late_closings.wait(60)
        assert "a-0" not in folders(made)
        assert not made.broker.closing.pending("a")

    with world(tmp_path) as made:
        asyncio.run(test(made))


def begun_copy(log_dir: str, topic: str, topic_id: bytes) -> Path:
    """What a move of the first partition to a log dir has begun."""
    made = Path(log_dir, files.dated_folder_name(topic, 0, "0" * 32, files.FUTURE_FOLDER))
    made.mkdir()
    mark_folder(made, topic_id)
    return made


def test_the_copy_of_a_topic_that_is_deleted_goes_with_it(tmp_path: Path) -> None:
    """Its IO worker may have died before it could remove it."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a"), NewTopic("b")]))
        a, b = (made.broker.catalogue.topics[name] for name in "ab")
        for topic in (a, b):
            replica = topic.partitions[0].leader
            (target,) = set(made.dirs) - {replica.log_dir}
            remember(made.broker, replica, target)
            begun_copy(target, topic.name, topic.topic_id)
        made.worker.opened.clear()
        asyncio.run(delete_topics(made.broker, lambda: [a]))
        assert "future" not in suffixes(made, "a")
        assert suffixes(made, "b") == ["future"]


def test_the_copy_of_a_topic_whose_deletion_a_crash_interrupted_goes_at_the_next_start(
    tmp_path: Path,
) -> None:
    with world(tmp_path, dirs=2) as made:
        one = begin_deletion(made)
        begun_copy(made.dirs[1], "a", one.topic_id)
        made.reboot()
        assert set(suffixes(made, "a")) == {"delete"}


def test_the_copy_of_a_topic_whose_deletion_was_interrupted_goes_with_it(tmp_path: Path) -> None:
    """Its IO worker died, too. The next start would keep it for inspection."""
    with world(tmp_path, dirs=2) as made:
        one = begin_deletion(made)
        begun_copy(made.dirs[1], "a", one.topic_id)
        made.broker.close()
        made.start()
        asyncio.run(close_orphans(made.broker, 0, made.worker))
        assert set(suffixes(made, "a")) == {"delete"}


@pytest.mark.parametrize("again", [False, True])
def test_a_copy_of_an_unowned_log_is_set_aside_at_the_next_start(tmp_path: Path, again: bool) -> None:
    """As Apache Kafka does: it is no beginning of a move of another topic of that name, and not
    removed either."""
    with world(tmp_path, dirs=2) as made:
        if again:
            asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        for log_dir in made.dirs:
            begun_copy(log_dir, "a", b"an older topic's")
        made.reboot()
        assert suffixes(made, "a") == ["stray", "stray"]
        assert asyncio.run(made.services.moves.future_replicas()) == []


def test_a_control_that_takes_over_leaves_copies_to_the_workers(tmp_path: Path) -> None:
    """One of them may be about to remove it."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("b")]))
        copy = begun_copy(made.dirs[1], "a", b"an older topic's")
        made.broker.close()
        made.start()
        assert copy.is_dir()


def test_the_copy_of_a_topic_with_a_long_name_is_known_by_its_id(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a" * 249)]))
        (topic,) = made.broker.catalogue.topics.values()
        copy = begun_copy(made.dirs[1], topic.name, topic.topic_id)
        made.reboot()
        assert copy.is_dir()


def test_a_deletion_is_finished_when_its_log_dir_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a folder that is gone: the IO worker that renamed it may have died before its sync.
    A power cut would bring it back, and the next start would adopt it."""
    synced: list[str] = []
    broken: set[str] = set()

    def sync(folder: str) -> None:
        synced.append(folder)
        if folder in broken:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "sync_folder", sync)
    with world(tmp_path, dirs=2) as made:
        one = begin_deletion(made)
        broken.add(one.partition.log_dir)
        synced.clear()
        assert retire_all([one]) == []
        assert not Path(one.partition.folder).exists()
        assert retire_all([one]) == []
        broken.clear()
        assert retire_all([one]) == [one]
        assert synced == [one.partition.log_dir] * 3
