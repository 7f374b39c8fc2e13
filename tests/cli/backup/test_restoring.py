"""A restored log dir has exactly the files of the point, whatever an interrupted restore left."""

import errno
import os
from pathlib import Path

import pytest

from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.backup.repository import Repository
from kbroker.cli.backup.restoring import RESTORING, _locked, restore
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.io.files.log_dir import LogDir
from kbroker.protocol.kafka_uuid import format_uuid


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "backups")
    made.lock()
    return made


@pytest.fixture
def point(repository: Repository) -> Point:
    """Two topics; orders-0 has the segments 0 and 5."""
    segments = []
    for base in (0, 5):
        stored = repository.store_bytes(b"%d" % base)
        segments.append(SegmentFile(base, stored.size, stored.sha256))
    partitions = [
        PartitionFiles("orders", 0, format_uuid(b"1" * 16), 0, 9, segments),
        PartitionFiles("other", 0, format_uuid(b"2" * 16), 4, 4, []),
    ]
    return Point(1_000, "c", 1, format_uuid(b"3" * 16), repository.store_bytes(b"metadata"), partitions)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.log"))


def restored(repository: Repository, point: Point, target: Path, *topics: str) -> list[str]:
    restore(repository, point, target, topics, lambda _: None)
    return names(target)


def test_files_of_another_interrupted_restore_are_removed(
    repository: Repository, point: Point, tmp_path: Path
) -> None:
    """Of a later point, with more segments, and of all topics."""
    half = tmp_path / f"to{RESTORING}"
    for name in ("orders-0", "other-0", "deleted-3"):
        (half / name).mkdir(parents=True)
    for name in ("orders-0/00000000000000000009.log", "orders-0/partition.metadata.tmp", "other-0/x.log"):
        (half / name).write_bytes(b"later")
    found = restored(repository, point, tmp_path / "to", "orders")
    assert found == ["orders-0/00000000000000000000.log", "orders-0/00000000000000000005.log"]
    assert not (tmp_path / "to" / "other-0").exists()
    assert not (tmp_path / "to" / "deleted-3").exists()


@pytest.mark.parametrize("name", ["photos/1.jpg", "orders-0/00000000000000000000.index", "orders-0/a/b.log"])
def test_files_that_no_restore_makes_stay(
    repository: Repository, point: Point, tmp_path: Path, name: str
) -> None:
    file = tmp_path / f"to{RESTORING}" / name
    file.parent.mkdir(parents=True)
    file.touch()
    with pytest.raises(UsageFailed, match=f"no restore wrote .*: move .*/to{RESTORING} away"):
        restored(repository, point, tmp_path / "to", "other")
    assert file.exists()


def test_nothing_is_removed_through_a_link(repository: Repository, point: Point, tmp_path: Path) -> None:
    """Another user may make one in /tmp, and wait for root to restore there."""
    victim = tmp_path / "victim"
    (victim / "orders-0").mkdir(parents=True)
    (tmp_path / f"to{RESTORING}").symlink_to("victim")
    with pytest.raises(UsageFailed, match=f"to{RESTORING} is not a folder: move it away"):
        restored(repository, point, tmp_path / "to", "other")
    (tmp_path / f"to{RESTORING}").unlink()
    (tmp_path / f"to{RESTORING}").mkdir()
    (tmp_path / f"to{RESTORING}" / "orders-1").symlink_to("../victim")
    with pytest.raises(UsageFailed, match=r"no restore wrote .*orders-1: move"):
        restored(repository, point, tmp_path / "to", "other")
    assert (victim / "orders-0").is_dir()


def test_the_folder_of_another_user_is_not_continued(
    repository: Repository, point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"to{RESTORING}").mkdir()
    monkeypatch.setattr("kbroker.cli.backup.restoring.os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(UsageFailed, match="belongs to another user"):
        restored(repository, point, tmp_path / "to", "other")


def test_a_link_to_an_empty_folder_remains(repository: Repository, point: Point, tmp_path: Path) -> None:
    """As systemd makes /var/lib/kbroker for a user of its own."""
    (tmp_path / "private").mkdir()
    (tmp_path / "link").symlink_to("private")
    assert restored(repository, point, tmp_path / "link", "other") == ["other-0/00000000000000000004.log"]
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "private") == ["other-0/00000000000000000004.log"]


def test_a_wrong_target_is_refused_before_anything_is_copied(
    repository: Repository, point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "log" / "empty").mkdir(parents=True)
    (tmp_path / "log" / "meta.properties").touch()
    for name, why in (
        ("file", "is not a folder"),
        ("log", "is not empty"),
        ("log/empty", "is a broker's log dir"),
    ):
        with pytest.raises(UsageFailed, match=why):
            restored(repository, point, tmp_path / name)
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "disk")
    (tmp_path / "disk").mkdir()
    with pytest.raises(
        UsageFailed, match=f"is a mount point: give a folder in it, such as {tmp_path}/disk/kbroker"
    ):
        restored(repository, point, tmp_path / "disk")
    assert not list(tmp_path.rglob(f"*{RESTORING}"))


def test_an_unknown_topic_is_refused_with_the_known_ones(
    repository: Repository, point: Point, tmp_path: Path
) -> None:
    with pytest.raises(
        CommandFailed, match=r"not in the backup of ....-..-..T.*Z: lost; it has orders, other"
    ):
        restored(repository, point, tmp_path / "to", "orders", "lost")
    assert not list(tmp_path.glob("to*"))


def test_two_restores_do_not_fill_one_folder(repository: Repository, point: Point, tmp_path: Path) -> None:
    half = tmp_path / f"to{RESTORING}"
    half.mkdir()
    with _locked(half), pytest.raises(CommandFailed, match="another restore fills"):
        restored(repository, point, tmp_path / "to")
    assert len(restored(repository, point, tmp_path / "to")) == 3


def test_a_full_disk_names_the_file_and_how_to_continue(
    repository: Repository, point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr("kbroker.cli.backup.repository.os.write", full)
        with pytest.raises(
            CommandFailed, match=r"/orders-0/0+.log: No space left.*; the same command continues"
        ):
            restored(repository, point, tmp_path / "to")
    assert len(restored(repository, point, tmp_path / "to")) == 3


def test_everything_is_on_disk_before_the_log_dir_has_its_name(
    repository: Repository, point: Point, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut partition.metadata was empty, and the broker left the topic alone. So may
    be the files of an interrupted restore, which are not written again."""
    restored(repository, point, tmp_path / "first")
    expected = {str(path.relative_to(tmp_path / "first")) for path in (tmp_path / "first").rglob("*")}
    synced: list[set[str]] = []

    def sync(log_dir: LogDir) -> None:
        synced.append({str(path.relative_to(log_dir.path)) for path in Path(log_dir.path).rglob("*")})
        assert not (tmp_path / "to").exists()

    monkeypatch.setattr(LogDir, "sync", sync)
    restored(repository, point, tmp_path / "to")
    assert synced == [expected]
    assert "orders-0/partition.metadata" in expected
