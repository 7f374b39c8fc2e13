"""Log dirs at another path than at the last start."""

import asyncio
import base64
import errno
import shutil
from pathlib import Path

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.messages import OpenPartition
from kbroker.log import files
from tests.control.fakes import World, world


def create(made: World, *specs: NewTopic) -> None:
    asyncio.run(create_topics(made.broker, specs))


def start_in(made: World, *dirs: Path) -> None:
    """Stop, and start with other paths in log.dirs; each keeps its id."""
    ids = [made.directory_ids[one] for one in made.dirs[: len(dirs)]]
    made.dirs = [str(one) for one in dirs]
    made.directory_ids = dict(zip(made.dirs, ids, strict=True))
    made.settings["log.dirs"] = ",".join(made.dirs)
    made.reboot()


def partition_folder(log_dir: str, name: str, topic_id: bytes) -> None:
    """A partition's folder with its topic id."""
    folder = Path(log_dir, name)
    folder.mkdir(parents=True, exist_ok=True)
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    (folder / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")


def copied(log_dir: str, other: Path) -> Path:
    """A copy of all of a log dir, also of what its broker has open."""
    shutil.copytree(log_dir, other)
    return other


def opened_in(made: World) -> set[str]:
    return {call.log_dir for call in made.worker.calls if isinstance(call, OpenPartition)}


def known_dirs(made: World) -> set[str]:
    return {one.log_dir for one in made.broker.catalogue.replicas()}


def two_topics(made: World) -> None:
    made.directory_ids = {log_dir: f"id of {number}" for number, log_dir in enumerate(made.dirs)}
    made.reboot()
    create(made, NewTopic("a", 2), NewTopic("b", 1))


def test_logs_of_a_copied_log_dir_are_served_from_the_copy_only(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        two_topics(made)
        original = Path(made.dirs[0])
        made.broker.stores.first.close()
        copy = copied(made.dirs[0], tmp_path / "copy")
        start_in(made, copy)
        assert known_dirs(made) == opened_in(made) == {str(copy)}
        for folder in (original, copy):
            assert {each.name for each in folder.iterdir() if each.is_dir()} == {"a-0", "a-1", "b-0"}
        made.reboot()
        assert opened_in(made) == {str(copy)}


def test_one_of_two_log_dirs_moves(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        two_topics(made)
        other = tmp_path / "other"
        made.broker.stores.first.close()
        Path(made.dirs[1]).rename(other)
        start_in(made, Path(made.dirs[0]), other)
        assert known_dirs(made) == opened_in(made) == {made.dirs[0], str(other)}
        assert made.broker.online_dirs == tuple(made.dirs)


def test_deletions_move_with_their_log_dir(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        two_topics(made)
        made.broker.dir_errors.fail(made.dirs[0], 5)
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["b"]]))
        (left,) = made.broker.stores.first.deletions()
        partition_folder(made.dirs[0], "b-0", left.topic_id)
        made.broker.stores.first.close()
        copy = copied(made.dirs[0], tmp_path / "copy")
        start_in(made, copy)
        assert not made.broker.stores.first.deletions()
        assert not (copy / "b-0").exists()
        assert Path(tmp_path, "d0", "b-0").exists()


def test_two_log_dirs_with_one_id_are_not_taken_as_moved(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        two_topics(made)
        made.broker.stores.first.close()
        one, other = (copied(made.dirs[0], tmp_path / name) for name in ("one", "other"))
        identity = made.directory_ids[made.dirs[0]]
        old, made.dirs = made.dirs[0], [str(one), str(other)]
        made.directory_ids = dict.fromkeys(made.dirs, identity)
        made.settings["log.dirs"] = ",".join(made.dirs)
        made.reboot()
        assert known_dirs(made) == {old}


def test_a_folder_outside_of_log_dirs_is_neither_opened_nor_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a copy without its meta.properties, which names the log dir."""
    with world(tmp_path) as made:
        two_topics(made)
        old = Path(made.dirs[0])
        for each in made.broker.catalogue.replicas():
            partition_folder(
                str(old), Path(each.folder).name, made.broker.catalogue.topics[each.topic].topic_id
            )
        made.broker.stores.first.close()
        copy = copied(made.dirs[0], tmp_path / "copy")
        made.directory_ids[made.dirs[0]] = "new"
        start_in(made, copy)
        assert f"{old} is not in log.dirs: its 3 partitions stay offline" in caplog.text
        assert [made.broker.dir_errors.of(log_dir) for log_dir in known_dirs(made)] == [errno.ENODEV]
        for folder in (old, copy):
            assert {each.name for each in folder.iterdir() if each.is_dir()} == {"a-0", "a-1", "b-0"}
