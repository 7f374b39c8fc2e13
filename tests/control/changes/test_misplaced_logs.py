"""A log with folders in several log dirs: none of its records is removed, whatever the store
names."""

import asyncio
import shutil
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.log import files
from tests.control.changes.deleted_folders import mark, mark_folder, suffixes
from tests.control.fakes import World, world
from tests.log.batch_bytes import batch


def topic(made: World) -> tuple[Partition, bytes]:
    """The only partition of a new topic, "a", with its id."""
    asyncio.run(create_topics(made.broker, [NewTopic("a")]))
    created = made.broker.catalogue.topics["a"]
    mark(created.partitions[0], created.topic_id)
    return created.partitions[0], created.topic_id


def fill(folder: str | Path, topic_id: bytes, records: int, epoch: int = 0) -> Path:
    """Let a folder be a log of the topic with some records."""
    path = Path(folder)
    path.mkdir(exist_ok=True)
    mark_folder(path, topic_id)
    data = b"".join(batch(offset, leader_epoch=epoch) for offset in range(records))
    Path(files.path(str(path), 0, files.LOG)).write_bytes(data)
    (path / files.LEADER_EPOCH_CHECKPOINT).write_text(f"0\n1\n{epoch} 0\n")
    return path


def others(made: World, partition: Partition) -> list[str]:
    return [f"{log_dir}/a-0" for log_dir in made.dirs if log_dir != partition.log_dir]


@pytest.mark.parametrize(
    ("here", "there", "left"),
    [
        ((5, 0), (5, 0), "delete"),
        ((5, 0), (3, 0), "delete"),
        ((5, 1), (5, 0), "delete"),
        ((5, 0), (6, 0), "stray"),
        ((5, 0), (5, 1), "stray"),
        ((5, 1), (6, 0), "stray"),
    ],
)
def test_another_folder_of_a_log_is_only_removed_if_the_log_has_its_records(
    tmp_path: Path, here: tuple[int, int], there: tuple[int, int], left: str
) -> None:
    """A move leaves such a folder. But the store may be an outdated copy, or the folder was put
    there; it was removed, whatever it had."""
    with world(tmp_path, dirs=2) as made:
        partition, topic_id = topic(made)
        fill(partition.folder, topic_id, *here)
        (other,) = others(made, partition)
        fill(other, topic_id, *there)
        made.reboot()
        assert suffixes(made, "a") == [left]
        assert not Path(other).exists()
        assert next(made.broker.catalogue.partitions()).log_dir == partition.log_dir


def test_another_folder_is_kept_if_the_end_of_the_log_cannot_be_read(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        partition, topic_id = topic(made)
        log = Path(files.path(str(fill(partition.folder, topic_id, 5)), 0, files.LOG))
        log.write_bytes(b"\x01" * 200)
        (other,) = others(made, partition)
        fill(other, topic_id, 3)
        made.reboot()
        assert suffixes(made, "a") == ["stray"]


@pytest.mark.parametrize("longer", [0, 1])
def test_of_two_folders_of_a_log_that_is_elsewhere_the_one_with_newer_records_is_used(
    tmp_path: Path, longer: int
) -> None:
    """A log that was closed cleanly keeps its epoch: of two with the same one the first was used,
    and the other, with more records, was removed by the next start."""
    with world(tmp_path, dirs=3) as made:
        partition, topic_id = topic(made)
        shutil.rmtree(partition.folder)
        found = others(made, partition)
        for number, folder in enumerate(found):
            fill(folder, topic_id, 6 if number == longer else 4)
        for _ in range(2):
            made.reboot()
            assert next(made.broker.catalogue.partitions()).folder == found[longer]
        assert suffixes(made, "a") == ["delete"]


@pytest.mark.parametrize("longer", [0, 1])
def test_of_two_folders_that_are_adopted_the_one_with_newer_records_is_used(
    tmp_path: Path, longer: int
) -> None:
    """Apache Kafka does not start with two. The first was used, and the next start removed the
    other."""
    with world(tmp_path, dirs=2) as made:
        found = [str(fill(f"{log_dir}/a-0", b"\1" * 16, 4)) for log_dir in made.dirs]
        fill(found[longer], b"\1" * 16, 6)
        made.reboot()
        assert next(made.broker.catalogue.partitions()).folder == found[longer]


@pytest.mark.parametrize(("copied", "used"), [((3, 0), "there"), ((5, 0), "here"), ((5, 1), "here")])
def test_a_copy_that_lacks_records_does_not_become_the_log(
    tmp_path: Path, copied: tuple[int, int], used: str
) -> None:
    """The store is an outdated copy: it names the log dir to which the log was being moved back.
    The unfinished copy was taken for a complete one, and the log was renamed."""
    with world(tmp_path, dirs=2) as made:
        partition, topic_id = topic(made)
        shutil.rmtree(partition.folder)
        (other,) = others(made, partition)
        fill(other, topic_id, 5)
        future = files.dated_folder_name("a", 0, "f" * 32, files.FUTURE_FOLDER)
        copy = fill(f"{partition.log_dir}/{future}", topic_id, *copied)
        made.reboot()
        now = next(made.broker.catalogue.partitions())
        assert now.folder == (other if used == "there" else partition.folder)
        assert Path(other).exists() is (used == "there")
        assert copy.exists()
