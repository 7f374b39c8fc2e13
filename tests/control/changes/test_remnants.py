"""Folders of deleted topics in other log dirs, and those that cannot be renamed."""

import asyncio
import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from kbroker.control.changes.retirement import remnants_of, retire_all
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import Deletion
from kbroker.ipc.shared import Sizes
from kbroker.log import checkpoint
from tests.control.changes.deleted_folders import begin_deletion, mark, mark_folder, suffixes
from tests.control.fakes import World, world


def remnant(made: World, topic_id: bytes) -> Path:
    """The folder that a log, "a-0", has left in the other log dir."""
    (here,) = (path.parent for log_dir in made.dirs for path in Path(log_dir).glob("a-0"))
    folder = Path(next(log_dir for log_dir in made.dirs if Path(log_dir) != here), "a-0")
    folder.mkdir()
    mark_folder(folder, topic_id)
    return folder


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_deleted_topic_leaves_no_folder_in_another_log_dir(tmp_path: Path, interrupted: bool) -> None:
    """A move could not rename its former folder: the next start adopted it, and the topic was
    back."""
    with world(tmp_path, dirs=2) as made:
        if interrupted:
            remnant(made, begin_deletion(made).topic_id)
        else:
            asyncio.run(create_topics(made.broker, [NewTopic("a")]))
            topic = made.broker.catalogue.topics["a"]
            remnant(made, topic.topic_id)
            assert asyncio.run(delete_topics(made.broker, lambda: [topic])) == [None]
        made.reboot()
        assert not made.broker.catalogue.topics
        assert set(suffixes(made, "a")) == {"delete"}


def test_a_log_dir_that_is_offline_while_a_topic_is_deleted_does_not_bring_it_back(tmp_path: Path) -> None:
    """A move had left a folder there: the start at which the log dir was back adopted it. The store
    had a row for each deletion until then, without a bound."""
    with world(tmp_path, dirs=2) as made:
        made.directory_ids = dict(zip(made.dirs, ("first", "second"), strict=True))
        made.reboot()
        asyncio.run(create_topics(made.broker, [NewTopic("a"), NewTopic("b")]))
        topics = [made.broker.catalogue.topics[name] for name in "ab"]
        left = remnant(made, topics[0].topic_id)
        made.broker.dir_errors.fail(str(left.parent), errno.EIO)
        assert asyncio.run(delete_topics(made.broker, lambda: topics)) == [None, None]
        asyncio.run(create_topics(made.broker, [NewTopic("b")]))  # its name is free
        assert [one.partition.topic for one in made.broker.stores.first.deletions()] == ["b"]
        made.reboot()
        assert list(made.broker.catalogue.topics) == ["b"]
        assert suffixes(made, "a") == ["stray"]
        assert made.broker.stores.first.absent() == set()


def test_a_deletion_that_stays_stored_may_have_a_slot_beyond_the_table(tmp_path: Path) -> None:
    """kbroker.max.partitions was reduced while a log dir is offline: control could not start again
    in the same run."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 6)]))
        made.broker.dir_errors.fail(made.dirs[1], errno.EIO)
        topics = [made.broker.catalogue.topics["a"]]
        assert asyncio.run(delete_topics(made.broker, lambda: topics)) == [None]
        made.dirs = made.dirs[:1]
        made.sizes = Sizes(2, 1, 2, 16, 1 << 20)
        made.reboot()
        asyncio.run(create_topics(made.broker, [NewTopic("b")]))
        made.broker.close()
        made.start()
        assert list(made.broker.catalogue.topics) == ["b"]
        assert len(made.broker.stores.first.deletions()) == 3


def test_a_folder_of_an_existing_topic_in_another_log_dir_is_kept(tmp_path: Path) -> None:
    """Its replica may have come back to the site, in the other log dir."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        topic = made.broker.catalogue.topics["a"]
        other = remnant(made, topic.topic_id)
        gone = [Deletion(topic.topic_id, one) for one in topic.partitions[0].replicas]
        assert retire_all(gone, remnants=remnants_of(made.broker, gone)) == gone
        assert other.is_dir()


def test_a_log_that_is_only_in_another_log_dir_is_used_there(tmp_path: Path) -> None:
    """It was moved while no broker ran, or the store is an outdated copy. An empty log took its
    place, and the next start removed it."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        topic = made.broker.catalogue.topics["a"]
        other = remnant(made, topic.topic_id)
        shutil.rmtree(topic.partitions[0].folder)
        for _ in range(2):
            made.reboot()
            (partition,) = made.broker.catalogue.partitions()
            assert Path(partition.folder) == other
            (stored,) = made.broker.stores.first.load().topics
            assert stored.partitions[0].log_dir == str(other.parent)
            assert (other.is_dir(), suffixes(made, "a")) == (True, [])


def test_a_log_whose_log_dir_is_offline_is_not_used_in_another(tmp_path: Path) -> None:
    """The one there may be newer."""
    with world(tmp_path, dirs=2) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a")]))
        topic = made.broker.catalogue.topics["a"]
        other, here = remnant(made, topic.topic_id), topic.partitions[0].log_dir
        made.dirs = [str(other.parent)]
        made.reboot()
        (partition,) = made.broker.catalogue.partitions()
        assert (partition.log_dir, other.is_dir()) == (here, True)


def test_folders_that_a_disk_refuses_to_rename_are_one_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    with world(tmp_path) as made:
        asyncio.run(create_topics(made.broker, [NewTopic("a", 12)]))
        topic = made.broker.catalogue.topics["a"]
        gone = [Deletion(topic.topic_id, r) for p in topic.partitions for r in p.replicas]
        for one in gone:
            mark(one.partition, topic.topic_id)
        monkeypatch.setattr(os, "rename", refuse)
        with caplog.at_level(logging.ERROR):
            assert retire_all(gone) == []
        (line,) = caplog.messages
        assert "a-0 could not be renamed: [Errno 30]" in line
        assert f"and 11 others of {made.dirs[0]}" in line


def test_a_topic_id_that_cannot_be_read_now_is_read_at_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor(_: str) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with world(tmp_path) as made:
        one = begin_deletion(made)
        with monkeypatch.context() as busy:
            busy.setattr(checkpoint, "read_topic_id", no_descriptor)
            assert retire_all([one]) == [], "finished, with its folder in place"
        assert suffixes(made, "a") == []
        assert retire_all([one]) == [one]
        assert suffixes(made, "a") == ["delete"]
