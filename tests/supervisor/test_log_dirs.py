"""Log dirs that cannot be used are named with the reason."""

import errno
import logging
import os
import shutil
from pathlib import Path

import pytest

from kbroker.io.files import meta_properties
from kbroker.log import boot_mark, files
from kbroker.supervisor.log_dirs import LogDirs, LogDirsUnusable


def test_without_any_the_reason_of_each_is_in_one_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LogDirsUnusable) as refused:
        LogDirs([str(file), str(file / "below")], 1)
    assert str(refused.value) == (
        f"no log dir can be used: {file} (a file, not a folder), {file}/below (Not a directory)"
    )
    assert not caplog.records


def test_one_of_several_is_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.touch()
    LogDirs([str(tmp_path / "data")], 1).release(clean=True)
    with caplog.at_level(logging.ERROR):
        dirs = LogDirs([str(file), str(tmp_path / "data")], 1)
    assert dirs.online == (str(tmp_path / "data"),)
    assert [record.getMessage() for record in caplog.records] == [
        f"log dir {file} is offline: a file, not a folder"
    ]
    dirs.release(clean=True)


def test_a_log_dir_whose_identity_cannot_be_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker did not start, although it could use another one."""
    paths = [str(tmp_path / name) for name in ("broken", "data")]
    dirs = LogDirs(paths, 1)
    cluster_id = dirs.cluster_id
    dirs.release(clean=True)
    read = meta_properties.read

    def read_one(folder: str) -> meta_properties.MetaProperties | None:
        if folder == paths[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(folder)

    monkeypatch.setattr(meta_properties, "read", read_one)
    dirs = LogDirs(paths, 1)
    assert (dirs.online, dirs.cluster_id) == ((paths[1],), cluster_id)
    dirs.release(clean=True)


def test_a_new_log_dir_gets_no_other_cluster_while_the_others_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start failed, because the store was not there, either, and so did each later one: the new
    log dir had another cluster.id."""
    first, new = tmp_path / "first", tmp_path / "new"
    LogDirs([str(first)], 1).release(clean=True)
    read = meta_properties.read

    def fail_first(folder: str) -> meta_properties.MetaProperties | None:
        if folder == str(first):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(folder)

    monkeypatch.setattr(meta_properties, "read", fail_first)
    with pytest.raises(LogDirsUnusable) as refused:
        LogDirs([str(first), str(new)], 1)
    assert str(refused.value) == (
        f"meta.properties may be in a log dir that cannot be used: {first} ({os.strerror(errno.EIO)})"
    )
    assert not (new / files.META_PROPERTIES).exists()


def test_a_log_dir_and_its_copy_are_refused_together(tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    dirs = LogDirs([str(first)], 1)
    (directory_id,) = dirs.directory_ids.values()
    dirs.release(clean=True)
    shutil.copytree(first, copy)
    with pytest.raises(LogDirsUnusable) as refused:
        LogDirs([str(first), str(copy)], 1)
    assert str(refused.value) == (
        f"{first} and {copy} have the same directory.id {directory_id}: one is a copy of the other,"
        " remove one of them from log.dirs"
    )


@pytest.mark.parametrize(
    ("owner", "mode", "warned"),
    [
        (None, 0o755, ""),
        (None, 0o1777, ""),
        (None, 0o777, "group or others can write it"),
        (12345, 0o755, "user 12345"),
    ],
)
def test_a_log_dir_in_which_others_can_replace_files_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, owner: int | None, mode: int, warned: str
) -> None:
    """As the default one, /tmp/kafka-logs, if another user has made it first."""
    folder = tmp_path / "logs"
    folder.mkdir()
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(folder, owner, -1)
    folder.chmod(mode)
    LogDirs([str(folder)], 1).release(clean=True)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [str(folder) in line and warned in line for line in lines] == [True] * bool(warned)


def test_a_mark_of_this_run_of_the_kernel_is_found_at_the_next_start(tmp_path: Path) -> None:
    marked, other = tmp_path / "marked", tmp_path / "other"
    dirs = LogDirs([str(marked), str(other)], 1)
    assert dirs.same_boot == frozenset()
    boot_mark.write(str(marked))
    dirs.release(clean=False)
    dirs = LogDirs([str(marked), str(other)], 1)
    assert dirs.same_boot == {str(marked)}
    dirs.release(clean=False)


def test_after_a_clean_stop_there_is_no_mark(tmp_path: Path) -> None:
    """Apache Kafka may have the log dir next, also on another host, and be killed there. A backup
    that is made meanwhile has no mark, either."""
    dirs = LogDirs([str(tmp_path)], 1)
    boot_mark.write(str(tmp_path))
    dirs.release(clean=True)
    (tmp_path / files.CLEAN_SHUTDOWN).unlink()  # as a start does, of whichever broker
    dirs = LogDirs([str(tmp_path)], 1)
    assert dirs.same_boot == frozenset()
    dirs.release(clean=False)
