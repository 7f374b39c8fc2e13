"""Log dirs that return: topics that were deleted meanwhile do not."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.shared import Shared
from kbroker.log import files
from tests.control.changes.deleted_folders import mark, mark_folder
from tests.control.fakes import World, world


class Disk:
    """The disk that is mounted at the second log dir, with a log of topic "a"."""

    def __init__(self, made: World) -> None:
        self._made = made
        self.path = Path(made.dirs[1])
        self._kept = self.path.with_name("kept")
        made.directory_ids = dict(zip(made.dirs, ("first", "second"), strict=True))
        made.reboot()
        asyncio.run(create_topics(made.broker, [NewTopic("a", 2)]))
        self.topic = made.broker.catalogue.topics["a"]
        for partition in self.topic.partitions:
            mark(partition, self.topic.topic_id)

    def unmount(self) -> None:
        """Stop; the mount point is empty. The next start gives it a directory.id."""
        self._made.broker.close()
        self.path.rename(self._kept)
        self.path.mkdir()
        self._start("mount point")

    def restart(self) -> None:
        self._made.reboot()

    def mount(self) -> None:
        """Stop; the disk is at its place again."""
        self._made.broker.close()
        self.path.rename(self.path.with_name("mount point"))
        self._kept.rename(self.path)
        self._start("second")

    def _start(self, directory_id: str) -> None:
        self._made.directory_ids[str(self.path)] = directory_id
        self._made.shared = Shared(self._made.sizes)
        self._made.start()

    @property
    def dated(self) -> list[str]:
        """The endings of the dated folders of topic "a"."""
        return sorted(path.name.rpartition("-")[2] for path in self.path.glob("a-*.*"))


@pytest.mark.parametrize("created_again", [False, True])
def test_a_disk_that_was_not_mounted_while_its_topic_was_deleted_does_not_bring_it_back(
    tmp_path: Path, created_again: bool
) -> None:
    """The second start used the empty mount point as a new log dir, and took the deletion for
    finished. When the disk was back, its folder was adopted."""
    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        disk.unmount()
        assert made.broker.online_dirs == (made.dirs[0],)
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        disk.restart()
        assert made.broker.online_dirs == tuple(made.dirs)
        assert made.broker.stores.first.deletions() == []
        if created_again:
            asyncio.run(create_topics(made.broker, [NewTopic("a", 1)]))
        disk.mount()
        assert made.broker.online_dirs == tuple(made.dirs)
        assert list(made.broker.catalogue.topics) == ["a"] * created_again
        assert disk.dated == ["stray"]
        topics = list(made.broker.catalogue.topics.values())
        asyncio.run(delete_topics(made.broker, lambda: topics))
        disk.restart()
        assert not made.broker.catalogue.topics


def test_the_next_start_tries_again_when_the_new_name_is_not_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the folder would have its old name, and be adopted."""
    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        disk.unmount()
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        disk.restart()
        failed: list[str] = []
        sync = files.sync_folder

        def sync_folder(folder: str) -> None:
            if folder == str(disk.path) and disk.dated and not failed:
                failed.append(folder)
                raise OSError(errno.EIO, os.strerror(errno.EIO), folder)
            sync(folder)

        monkeypatch.setattr(files, "sync_folder", sync_folder)
        disk.mount()
        assert disk.dated == ["stray"]
        assert "second" in made.broker.stores.first.absent()
        disk.restart()
        assert "second" not in made.broker.stores.first.absent()


def test_a_log_dir_that_was_offline_while_its_topic_was_deleted_removes_the_folder(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        disk.unmount()
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        disk.mount()
        assert not made.broker.catalogue.topics
        assert disk.dated == ["delete"]


def test_topics_that_another_broker_has_written_to_a_new_disk_are_adopted(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        asyncio.run(delete_topics(made.broker, lambda: [disk.topic]))
        disk.unmount()
        (disk.path / "other-0").mkdir()
        mark_folder(disk.path / "other-0", b"o" * 16)
        disk.restart()
        assert list(made.broker.catalogue.topics) == ["other"]


def test_topics_of_a_log_dir_that_the_store_has_never_seen_are_adopted(tmp_path: Path) -> None:
    """As of a disk of Apache Kafka that is new in log.dirs, and that the broker could not use at
    first. They were renamed, because another topic was deleted meanwhile."""
    with world(tmp_path) as made:
        first, new = made.dirs[0], tmp_path / "new"
        made.directory_ids, made.settings["log.dirs"] = {first: "first"}, f"{first},{new}"
        made.reboot()
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        assert made.broker.dir_errors.failed == (str(new),)
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        folder = new / "other-0"
        folder.mkdir(parents=True)
        mark_folder(folder, b"o" * 16)
        made.dirs, made.directory_ids[str(new)] = [first, str(new)], "new"
        made.reboot()
        assert list(made.broker.catalogue.topics) == ["other"]
        assert folder.exists()


def test_a_log_dir_at_the_path_of_another_one_has_missed_nothing(tmp_path: Path) -> None:
    """Its former path is not in log.dirs any more. Its id counted as absent from each start on."""
    with world(tmp_path, dirs=2) as made:
        made.directory_ids = dict(zip(made.dirs, ("first", "second"), strict=True))
        made.reboot()
        made.broker.close()
        first, second = (Path(log_dir) for log_dir in made.dirs)
        second.rename(second.with_name("other disk"))
        first.rename(second)
        (second / "new-0").mkdir()
        mark_folder(second / "new-0", b"n" * 16)
        made.dirs, made.settings["log.dirs"], made.directory_ids = (
            [str(second)],
            str(second),
            {str(second): "first"},
        )
        made.shared = Shared(made.sizes)
        made.start()
        assert list(made.broker.catalogue.topics) == ["new"]
        assert made.broker.stores.first.absent() == {"second"}


def test_a_log_dir_that_was_not_in_log_dirs_does_not_bring_a_topic_back(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        both, ids = made.dirs, made.directory_ids
        (elsewhere,) = (p for p in disk.topic.partitions if p.log_dir == both[0])
        remnant = disk.path / Path(elsewhere.folder).name
        remnant.mkdir()  # of a move
        mark_folder(remnant, disk.topic.topic_id)
        made.dirs, made.settings["log.dirs"], made.directory_ids = both[:1], both[0], {both[0]: ids[both[0]]}
        made.reboot()
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        made.dirs, made.settings["log.dirs"], made.directory_ids = both, ",".join(both), ids
        made.reboot()
        assert not made.broker.catalogue.topics
        assert disk.dated == ["stray"]


def test_a_folder_that_cannot_be_renamed_is_not_adopted_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def refuse(old: Path, new: Path) -> None:
        if str(new).endswith("-stray"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        rename(old, new)

    with world(tmp_path, dirs=2) as made:
        disk = Disk(made)
        disk.unmount()
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        disk.restart()
        with monkeypatch.context() as read_only:
            read_only.setattr(os, "rename", refuse)
            disk.mount()
            assert not made.broker.catalogue.topics
        assert made.broker.stores.first.absent() == {"second", "mount point"}
        disk.restart()
        assert not made.broker.catalogue.topics
        assert made.broker.stores.first.absent() == {"mount point"}
