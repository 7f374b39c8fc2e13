"""Deletions that a crash interrupted: the topic never comes back, its slot is free only when no
process works with it."""

import asyncio
import base64
from pathlib import Path

import pytest

from kbroker.control.changes import topic_change
from kbroker.control.changes.move_targets import remember
from kbroker.control.changes.retirement import retire_all
from kbroker.control.changes.topic_change import close_deleted, create_topics, delete_topics
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import ClosePartition
from kbroker.log import files
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world


def mark(partition: Partition | Replica, topic_id: bytes) -> None:
    """partition.metadata, as IO workers write it."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    Path(partition.folder, files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")


def folders(made: World) -> list[str]:
    return sorted(path.name for path in Path(made.dirs[0]).iterdir() if path.is_dir())


def begin_deletion(made: World) -> Deletion:
    """Create topic "a" and delete it as far as the store; then control dies."""
    asyncio.run(create_topics(made.broker, [NewTopic("a")]))
    topic = made.broker.catalogue.topics["a"]
    (partition,) = topic.partitions
    mark(partition, topic.topic_id)
    one = Deletion(topic.topic_id, partition)
    change = Change(deleted_topics=["a"], deletions=[one])
    asyncio.run(made.broker.in_store(lambda store: store.apply(change)))
    return one


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
        asyncio.run(close_deleted(made.broker, made.broker.orphans, worker))
        assert ClosePartition(one.partition.slot, True) in worker.calls
        asyncio.run(create_topics(made.broker, [NewTopic("c")]))
        assert made.broker.catalogue.topics["c"].partitions[0].slot == one.partition.slot
        assert folders(made) == ["b-0", "c-0"]


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
    monkeypatch.setattr(topic_change, "CLOSE_S", 0.01)

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
            lambda body: hang(body) if body == ClosePartition(hanging, True) else call(body),
        )
        assert await delete_topics(made.broker, lambda: [topic]) == [None]
        assert not made.broker.catalogue.topics
        refused = (await create_topics(made.broker, [NewTopic("a"), NewTopic("b")]))["a"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert made.broker.catalogue.topics["b"].partitions[0].slot != hanging
        closed.set()
        await made.broker.late_closings.wait(10)
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


def test_the_state_of_a_closed_slot_is_not_mistaken_for_an_open_log(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        one = begin_deletion(made)
        made.shared.slots[one.partition.slot, Slot.STATE] = SlotState.DELETED
        made.broker.close()
        made.start()
        assert made.broker.orphans == []
        assert [name.endswith("-delete") for name in folders(made)] == [True]


def begun_copy(log_dir: str, topic: str, topic_id: bytes) -> Path:
    """What a move of the first partition to a log dir has begun."""
    made = Path(log_dir, files.dated_folder_name(topic, 0, "0" * 32, files.FUTURE_FOLDER))
    made.mkdir()
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    (made / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")
    return made


def suffixes(made: World, topic: str) -> list[str]:
    """Of a topic's dated folders."""
    dated = (path.name for log_dir in made.dirs for path in Path(log_dir).glob(f"{topic}-0.*"))
    return sorted(name.rpartition("-")[2] for name in dated)


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
