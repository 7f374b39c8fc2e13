"""Control's state at start: restarts of control, of the broker, and folders of unknown topics."""

import asyncio
import base64
import errno
import os
import time
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.images import full_image
from kbroker.control.metadata import adoption
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.choice import open_newest
from kbroker.control.store.store import FILE_NAME, StoreError, StoreVersion
from kbroker.ipc.layout import Slot
from kbroker.ipc.shared import Sizes
from kbroker.log import boot_mark, checkpoint, files
from tests.callbacks import slowness
from tests.control.fakes import CLUSTER_ID, World, world

ZERO_ID = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"


def create(made: World, *specs: NewTopic) -> None:
    asyncio.run(create_topics(made.broker, specs))


def assignments(made: World) -> list[tuple[str, int, int, int, int]]:
    return [(p.topic, p.index, p.slot, p.generation, p.worker) for p in made.broker.catalogue.partitions()]


def kafka_folder(log_dir: str, name: str, topic_id: bytes, epochs: str = "0\n1\n4 0\n") -> None:
    """A partition folder as Apache Kafka leaves it."""
    folder = Path(log_dir, name)
    folder.mkdir()
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    (folder / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")
    (folder / files.LEADER_EPOCH_CHECKPOINT).write_text(epochs)


def test_a_restarted_control_keeps_slots_generations_and_workers(tmp_path: Path) -> None:
    with world(tmp_path, workers=2) as made:
        create(made, NewTopic("a", 3), NewTopic("b", 2))
        before = assignments(made)
        epochs = [p.leader_epoch for p in made.broker.catalogue.partitions()]
        made.broker.close()
        made.start()
        assert assignments(made) == before
        assert [p.leader_epoch for p in made.broker.catalogue.partitions()] == epochs


def test_a_restarted_broker_raises_every_leader_epoch(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a", 2))
        made.reboot()
        assert [p.leader_epoch for p in made.broker.catalogue.partitions()] == [1, 1]
        made.reboot()
        assert [p.leader_epoch for p in made.broker.catalogue.partitions()] == [2, 2]
        slot = made.broker.catalogue.topics["a"].partitions[0].slot
        assert made.shared.slots[slot, Slot.LEADER_EPOCH] == 2


def test_after_a_clean_stop_single_replicas_keep_their_leader_epochs(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a", 4))
        made.clean_dirs = frozenset(made.dirs[:1])
        made.reboot()
        partitions = list(made.broker.catalogue.partitions())
        assert {p.leader_epoch for p in partitions if p.log_dir == made.dirs[0]} == {0}
        assert {p.leader_epoch for p in partitions if p.log_dir == made.dirs[1]} == {1}
        before = [p.leader_epoch for p in partitions]
        made.clean_dirs = frozenset(made.dirs)
        made.reboot()  # as it was stored
        assert [p.leader_epoch for p in made.broker.catalogue.partitions()] == before


def test_a_generation_that_a_start_gives_to_a_log_is_given_to_no_other(tmp_path: Path) -> None:
    """Its slot is beyond the table: kbroker.max.partitions was reduced. The next run gave the
    generation to its first new partition."""
    with world(tmp_path) as made:
        create(made, NewTopic("a"), NewTopic("b"))
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        made.sizes = Sizes(2, 1, 1, 16, 1 << 20)
        made.reboot()
        (partition,) = made.broker.catalogue.partitions()
        assert (partition.topic, partition.slot) == ("b", 0)
        assert made.broker.stores.first.load().next_generation > partition.generation


def test_the_store_has_one_change_from_a_start_after_a_clean_stop(tmp_path: Path) -> None:
    """Each one is synced, and the start waits for it."""
    with world(tmp_path) as made:
        create(made, NewTopic("a", 4))
        made.clean_dirs = frozenset(made.dirs)
        made.reboot()
        before = made.broker.stores.first.version
        made.reboot()
        assert made.broker.stores.first.version == StoreVersion(before.run + 1, before.changes + 1)


def test_folders_of_apache_kafka_become_topics(tmp_path: Path) -> None:
    (tmp_path / "d0").mkdir()
    kafka_folder(str(tmp_path / "d0"), "orders-0", b"o" * 16)
    kafka_folder(str(tmp_path / "d0"), "orders-1", b"o" * 16, epochs="0\n2\n0 0\n7 12\n")
    kafka_folder(str(tmp_path / "d0"), "__cluster_metadata-0", b"\0" * 15 + b"\x01")
    kafka_folder(str(tmp_path / "d0"), "orders-2.0123456789abcdef0123456789abcdef-delete", b"o" * 16)
    kafka_folder(str(tmp_path / "d0"), "__consumer_offsets-0", b"c" * 16)
    Path(tmp_path, "d0", "unrelated").mkdir()
    with world(tmp_path) as made:
        assert sorted(made.broker.catalogue.topics) == ["__consumer_offsets", "orders"]
        topic = made.broker.catalogue.topics["orders"]
        assert topic.topic_id == b"o" * 16
        assert [p.leader_epoch for p in topic.partitions] == [5, 8]
        assert made.broker.topic_config("__consumer_offsets").compact
        made.reboot()
        assert made.broker.catalogue.topics["orders"].topic_id == b"o" * 16


def test_a_log_dir_with_a_folder_that_is_taken_over_is_checked(tmp_path: Path) -> None:
    """Folders that were copied there since a kill -9, perhaps from a disk of a host that
    crashed."""
    with world(tmp_path, dirs=2) as made:
        for path in made.dirs:
            boot_mark.write(path)
        made.reboot()
        assert [boot_mark.is_kept(path) for path in made.dirs] == [True, True]
        kafka_folder(made.dirs[1], "orders-0", b"o" * 16)
        made.reboot()
        assert [boot_mark.is_kept(path) for path in made.dirs] == [True, False]


def test_partitions_that_another_broker_had_start_empty(tmp_path: Path) -> None:
    (tmp_path / "d0").mkdir()
    kafka_folder(str(tmp_path / "d0"), "orders-2", b"o" * 16)
    with world(tmp_path) as made:
        assert [p.index for p in made.broker.catalogue.topics["orders"].partitions] == [0, 1, 2]


@pytest.mark.parametrize(
    "name", ["t-2000000000", f"t-{10**30}", "ä-0", b"\xff-0".decode(errors="surrogateescape"), ".-0", "..-0"]
)
def test_a_folder_that_no_topic_can_have_is_left_alone(tmp_path: Path, name: str) -> None:
    """The first one made a start look for two thousand million folders, others failed in it."""
    (tmp_path / "d0").mkdir()
    kafka_folder(str(tmp_path / "d0"), name, b"t" * 16)
    kafka_folder(str(tmp_path / "d0"), "orders-0", b"o" * 16)
    with world(tmp_path) as made:
        assert list(made.broker.catalogue.topics) == ["orders"]
    assert (tmp_path / "d0" / name).is_dir()


@pytest.mark.parametrize("index", [400_000, 1_000_000])
def test_a_start_is_refused_at_once_without_room_for_the_partitions_of_a_folder(
    tmp_path: Path, index: int
) -> None:
    (tmp_path / "d0").mkdir()
    kafka_folder(str(tmp_path / "d0"), f"orders-{index}", b"o" * 16)
    began = time.thread_time()
    with (
        pytest.raises(StoreError, match=rf"d0/orders-{index}: .* Raise kbroker.max.partitions"),
        world(tmp_path),
    ):
        pass
    assert time.thread_time() - began < 2 * slowness()


def test_a_topic_id_is_of_one_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Folders that were copied to another name made the start fail."""
    (tmp_path / "d0").mkdir()
    for name in ("copy-0", "orders-0", "orders-1"):
        kafka_folder(str(tmp_path / "d0"), name, b"o" * 16)
    with world(tmp_path) as made:
        assert list(made.broker.catalogue.topics) == ["copy"]
        assert "d0/orders-0 has the topic id of copy; left alone" in caplog.text
        kafka_folder(made.dirs[0], "third-0", b"o" * 16)
        made.reboot()
        assert list(made.broker.catalogue.topics) == ["copy"]


def test_partitions_without_a_log_are_spread_over_the_log_dirs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("d0", "d1"):
        (tmp_path / name).mkdir()
    kafka_folder(str(tmp_path / "d0"), "orders-40", b"o" * 16)
    with world(tmp_path, dirs=2) as made:
        dirs = [Path(one.log_dir).name for one in made.broker.catalogue.topics["orders"].partitions]
        assert (dirs.count("d0"), dirs.count("d1")) == (21, 20)
    assert caplog.text.count("starts empty") == 10
    assert "orders-10, and 29 more, have no log on disk and start empty" in caplog.text


@pytest.mark.parametrize("content", [None, "", "version: 0\ntopic_id: ???", "\0" * 43, ZERO_ID])
def test_a_folder_without_a_readable_topic_id_belongs_to_the_topic_of_its_name(
    tmp_path: Path, content: str | None
) -> None:
    """An empty partition took its place, perhaps in another log dir, or the topic had one partition
    fewer."""
    dirs = [tmp_path / f"d{number}" for number in range(3)]
    for log_dir in dirs:
        log_dir.mkdir()
    for index, number in enumerate((2, 1, 0, 2)):
        kafka_folder(str(dirs[number]), f"orders-{index}", b"o" * 16)
    kafka_folder(str(dirs[0]), "orders-5", b"o" * 16)
    for damaged in (dirs[2] / "orders-0", dirs[2] / "orders-3", dirs[0] / "orders-5"):
        path = damaged / files.PARTITION_METADATA
        path.unlink()
        if content is not None:
            path.write_text(content)
    with world(tmp_path, dirs=3) as made:
        partitions = made.broker.catalogue.topics["orders"].partitions
        assert [Path(one.log_dir).name for one in partitions] == ["d2", "d1", "d0", "d2"]
        assert [one.leader_epoch for one in partitions] == [5] * 4
        found = dirs[2] / "orders-0" / files.PARTITION_METADATA
        assert (found.read_text() if found.exists() else None) == content


def test_a_topic_is_not_taken_over_without_a_partition_that_cannot_be_read_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one took its place, and the next start did not use its folder any more."""
    read = checkpoint.read_topic_id

    def busy(folder: str) -> bytes | None:
        if folder.endswith("orders-0"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return read(folder)

    for index in range(2):
        kafka_folder(str(tmp_path), f"orders-{index}", b"o" * 16)
    with monkeypatch.context() as shortage:
        shortage.setattr(checkpoint, "read_topic_id", busy)
        with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
            adoption.scan([str(tmp_path)])
    assert [one.index for one in adoption.scan([str(tmp_path)])] == [0, 1]


@pytest.mark.parametrize(("number", "raised"), [(errno.EMFILE, True), (errno.EIO, False)])
def test_a_log_dir_that_cannot_be_listed_now_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
) -> None:
    def refuse(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "iterdir", refuse)
    if raised:
        for read in (adoption.scan, adoption.futures):
            with pytest.raises(OSError, match=os.strerror(number)):
                read([str(tmp_path)])
    else:
        assert adoption.scan([str(tmp_path)]) == []
        assert adoption.futures([str(tmp_path)]) == []


def test_a_folder_of_a_deleted_topic_of_the_same_name_is_not_used(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a", 1))
        made.broker.close()
        kafka_folder(made.dirs[1], "a-0", b"x" * 16)
        kafka_folder(made.dirs[1], "a-1", b"x" * 16)
        made.start()
        assert len(made.broker.catalogue.topics["a"].partitions) == 1


def test_the_store_is_found_in_whichever_directory_has_it(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a", 1))
        made.broker.close()
        made.dirs.reverse()
        made.start()
        assert "a" in made.broker.catalogue.topics


def test_dynamic_broker_settings_are_in_force_again_after_a_restart(tmp_path: Path) -> None:
    from kbroker.config.alter import Alteration
    from kbroker.control.changes.config_change import alter
    from kbroker.control.metadata.config_resource import BROKER

    with world(tmp_path) as made:
        asyncio.run(alter(made.broker, BROKER, "", [Alteration("log.retention.ms", 0, "777")], False))
        made.reboot()
        assert made.broker.config.log_retention_ms == 777
        settings = {"log.retention.ms": "777", "min.insync.replicas": "1"}
        assert full_image(made.broker).settings == settings


def test_a_log_dir_that_was_replaced_is_offline_as_long_as_it_should_hold_partitions(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        made.directory_ids = dict(zip(made.dirs, ("first", "second"), strict=True))
        made.reboot()
        create(made, NewTopic("a", 2))
        held = {p.log_dir for p in made.broker.catalogue.partitions()}
        assert held == set(made.dirs)
        made.directory_ids[made.dirs[1]] = "other"
        made.reboot()
        assert made.broker.online_dirs == (made.dirs[0],)
        assert made.broker.dirs_for_new_partitions() == [made.dirs[0]]
        made.directory_ids[made.dirs[1]] = "second"
        made.reboot()
        assert made.broker.online_dirs == tuple(made.dirs)


def test_a_replaced_log_dir_that_held_nothing_is_taken_as_it_is(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        for name in ("first", "other"):
            made.directory_ids = {made.dirs[1]: name}
            made.reboot()
            assert made.broker.online_dirs == tuple(made.dirs)


def test_a_deletion_is_not_finished_while_its_log_dir_is_offline(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a", 2))
        (lost,) = (p for p in made.broker.catalogue.partitions() if p.log_dir == made.dirs[1])
        made.broker.dir_errors.fail(made.dirs[1], 5)
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        Path(lost.folder).mkdir(exist_ok=True)
        store = made.broker.stores.first
        assert [one.partition.log_dir for one in store.deletions()] == made.dirs[1:]


def test_no_second_store_is_made_while_the_first_may_be_in_an_offline_log_dir(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        made.broker.close()
        Path(made.dirs[1], FILE_NAME).unlink()
        with pytest.raises(StoreError, match="d0"):
            open_newest(made.dirs[1:], made.dirs, CLUSTER_ID)
        made.start()


def test_a_store_that_may_be_outdated_allocates_no_producer_id_again(tmp_path: Path) -> None:
    """Batches of a second producer of an id would pass for repeated ones of the first."""
    with world(tmp_path, dirs=2) as made:
        made.broker.dir_errors.fail(made.dirs[1], 5)
        taken = asyncio.run(made.broker.producer_ids.take())  # the copy in d1 does not have its block
        made.dirs = made.dirs[1:]
        made.reboot()
        assert asyncio.run(made.broker.producer_ids.take()) > taken


def test_of_two_copies_that_were_used_without_each_other_the_last_one_wins(tmp_path: Path) -> None:
    """However many runs the broker had with the other one."""
    with world(tmp_path, dirs=2) as made:
        both = made.dirs
        made.dirs = both[:1]
        for _ in range(3):
            made.reboot()
        create(made, NewTopic("earlier", 1))
        made.dirs = both[1:]
        made.reboot()
        create(made, NewTopic("later", 1))
        made.dirs = both
        made.reboot()
        assert list(made.broker.catalogue.topics) == ["later"]
