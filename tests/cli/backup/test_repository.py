"""Objects are whole or not there, notes save copies, and pruning keeps what a point needs."""

import errno
import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from msgspec import structs

from kbroker.cli.backup.place import at
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.backup.repository import Repository, clone
from kbroker.cli.failures import CommandFailed, UsageFailed
from tests.syncs import Syncs


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "backups")
    made.lock()
    return made


def reopened(repository: Repository) -> Repository:
    """As the next command sees it."""
    repository.unlock()
    again = Repository(repository.folder)
    again.lock()
    return again


def source(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(data)
    return path


def stored(repository: Repository, path: Path, size: int) -> str:
    with open(path, "rb") as opened:
        return repository.store(opened.fileno(), size)


def point(repository: Repository, time_ms: int, *contents: bytes) -> Point:
    segments = [repository.store_bytes(data) for data in contents]
    partition = PartitionFiles("orders", 0, "A" * 22, 0, 9, segments, [(1, 0)])
    return Point(time_ms, "cluster", 1, "directory", repository.store_bytes(b"metadata"), [partition])


def test_an_object_is_the_first_bytes_of_a_file_under_their_checksum(
    repository: Repository, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 9000  # more than a chunk
    sha256 = stored(repository, source(tmp_path, data), len(data) - 5)
    assert repository.path(sha256).read_bytes() == data[:-5]
    assert sha256 == hashlib.sha256(data[:-5]).hexdigest()
    assert repository.path(sha256).stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_too_short_is_no_object(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="ends at byte 3, before byte 4"):
        stored(repository, source(tmp_path, b"abc"), 4)
    reopened(repository)
    assert not list((repository.folder / "objects").glob("*/*"))


def test_a_copy_that_failed_does_not_stand_in_the_way_of_the_next(
    repository: Repository, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed):
        stored(repository, source(tmp_path, b"abc"), 4)
    assert stored(repository, source(tmp_path, b"abc"), 3) == hashlib.sha256(b"abc").hexdigest()


def test_files_of_a_command_that_was_killed_are_removed(repository: Repository) -> None:
    sha256 = repository.store_bytes(b"whole").sha256
    names = (f"objects/{sha256[:2]}/7.writing", "objects/7.writing", "points/x.writing", "journal.writing")
    for name in names:
        (repository.folder / name).touch()
    reopened(repository)
    assert not [name for name in names if (repository.folder / name).exists()]
    assert repository.path(sha256).exists()


@pytest.mark.parametrize("topic", ["../../etc/x", "/etc/x", ""])
def test_a_manifest_names_no_folder_elsewhere(repository: Repository, topic: str) -> None:
    """Those in a bucket may be written by others than the one who restores."""
    made = point(repository, 1_000, b"x")
    repository.add(structs.replace(made, partitions=[structs.replace(made.partitions[0], topic=topic)]))
    with pytest.raises(CommandFailed, match=f"{topic!r} is no name of a topic; move this file away"):
        repository.points()


@pytest.mark.parametrize("sha256", ["../../etc/passwd", "", "a" * 63, "A" * 64])
def test_a_manifest_names_no_object_elsewhere(repository: Repository, sha256: str) -> None:
    made = point(repository, 1_000, b"x")
    repository.add(structs.replace(made, metadata=structs.replace(made.metadata, sha256=sha256)))
    with pytest.raises(CommandFailed, match=f"{sha256!r} is no SHA-256 checksum; move this file away"):
        repository.points()


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("partitions[...].index", -1),
        ("partitions[...].index", 2_000_000_000),
        ("partitions[...].high_watermark", 1 << 63),
        ("partitions[...].segments[...].base_offset", -1),
        ("partitions[...].segments[...].base_offset", 10**300),
        ("metadata.size", -1),
    ],
)
def test_a_manifest_with_numbers_that_no_log_has_is_refused(
    repository: Repository, path: str, number: int
) -> None:
    """The folder of another topic, or a name that no file system takes, stood for some of them."""
    repository.add(point(repository, 1_000, b"x"))
    (place,) = (repository.folder / "points").iterdir()
    manifest = one = json.loads(place.read_bytes())
    *parts, name = path.replace("[...]", "").split(".")
    for part in parts:
        one = one[part][0] if part != "metadata" else one[part]
    one[name] = number
    place.write_text(json.dumps(manifest))
    with pytest.raises(CommandFailed, match=rf"{re.escape(path.replace('...', '0'))}.; move this file away"):
        repository.points()


@pytest.mark.parametrize("time_ms", [-1, 253_402_300_800_000, 1 << 62, 10**30])
def test_a_manifest_with_an_impossible_time_is_refused(repository: Repository, time_ms: int) -> None:
    """Pruning would end with a traceback: no name stands for such a time."""
    place = Path(repository.add(point(repository, 1_000, b"x")))
    place.write_text(place.read_text().replace('"time_ms": 1000', f'"time_ms": {time_ms}'))
    with pytest.raises(CommandFailed, match="is no time between 1970 and 9999; move this file away"):
        repository.points()


@pytest.mark.parametrize("topic_id", ["", "A", "A" * 21, "é" * 22])
def test_a_manifest_with_a_malformed_id_of_a_topic_is_refused(repository: Repository, topic_id: str) -> None:
    made = point(repository, 1_000, b"x")
    partition = structs.replace(made.partitions[0], topic_id=topic_id)
    repository.add(structs.replace(made, partitions=[partition]))
    with pytest.raises(CommandFailed, match="move this file away"):
        repository.points()


def test_the_files_of_a_point_are_on_disk_before_the_point_has_its_name(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(repository.folder, monkeypatch)
    sha256 = stored(repository, source(tmp_path, b"abc"), 3)
    file, folder = syncs.taken()
    assert (file.endswith(".writing"), folder) == (True, f"objects/{sha256[:2]}")
    segment = repository.store_bytes(b"def")
    file, folder = syncs.taken()
    assert (file.endswith(".writing"), folder) == (True, f"objects/{segment.sha256[:2]}")
    whole = point(repository, 1_000, b"a")
    syncs.taken()
    place = Path(repository.add(whole))
    assert syncs.taken() == ["objects", f"points/{place.stem}.writing", "points"]


def test_a_point_is_gone_before_its_objects_are(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = point(repository, 1_000, b"a")
    repository.add(old)
    repository.note("a", old.partitions[0].segments[0].sha256)
    syncs = Syncs(repository.folder, monkeypatch)
    unlink, synced = Path.unlink, []

    def watched(path: Path, missing_ok: bool = False) -> None:
        synced.append((path.parent.name, syncs.taken()))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", watched)
    assert repository.drop([old]) == 2
    assert synced[0] == ("points", [])
    assert synced[1][1] == ["points"]
    assert syncs.taken() == ["journal.writing"]
    assert (repository.folder / "journal").read_text() == ""


def test_a_restored_object_is_on_disk_and_one_that_is_missing_is_named(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = repository.store_bytes(b"abc")
    syncs = Syncs(tmp_path, monkeypatch)
    repository.fetch(segment, tmp_path / "copy")
    assert syncs.taken() == ["copy"]
    assert (tmp_path / "copy").read_bytes() == b"abc"
    repository.path(segment.sha256).unlink()
    with pytest.raises(CommandFailed, match="is missing"):
        repository.fetch(segment, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_noted_segment_is_known_until_its_object_is_gone(repository: Repository, tmp_path: Path) -> None:
    sha256 = stored(repository, source(tmp_path, b"abc"), 3)
    repository.note("/data with blanks/a-0/0:1:3:5", sha256)
    with open(repository.folder / "journal", "a") as journal:
        journal.write("/data/torn 12")  # the command was killed here
    again = reopened(repository)
    assert again.known("/data with blanks/a-0/0:1:3:5", 3) == sha256
    assert again.known("/data/torn", 3) is None
    again.path(sha256).unlink()
    assert again.known("/data with blanks/a-0/0:1:3:5", 3) is None


def test_points_are_listed_by_time_and_read_back(repository: Repository) -> None:
    late, early = point(repository, 2_000, b"b"), point(repository, 1_000, b"a")
    repository.add(late)
    repository.add(early)
    assert repository.points() == [early, late]


def test_pruning_keeps_shared_objects(repository: Repository) -> None:
    old, new = point(repository, 1_000, b"a", b"shared"), point(repository, 2_000, b"shared", b"c")
    repository.add(old)
    repository.add(new)
    repository.note("a", old.partitions[0].segments[0].sha256)
    assert repository.drop([old]) == 1
    assert repository.points() == [new]
    assert not list(repository.damaged(new))
    assert reopened(repository).known("a", 1) is None


def test_damage_and_loss_are_found(repository: Repository, tmp_path: Path) -> None:
    one = point(repository, 1_000, b"a", b"b")
    first, second = one.partitions[0].segments
    repository.path(first.sha256).write_bytes(b"x")
    repository.path(second.sha256).unlink()
    assert len(list(repository.damaged(one))) == 2
    with pytest.raises(CommandFailed, match="is damaged"):
        clone(repository.path(first.sha256), 1, first.sha256, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("running", "allowed"),
    [
        (Purpose.BACKUP, {Purpose.LIST, Purpose.READ}),
        (Purpose.PRUNE, {Purpose.LIST}),
        (Purpose.READ, {Purpose.LIST, Purpose.READ, Purpose.BACKUP}),
        (Purpose.LIST, set(Purpose)),
    ],
)
def test_commands_run_together_unless_one_needs_what_the_other_removes(
    repository: Repository, running: Purpose, allowed: set[Purpose]
) -> None:
    repository.add(point(repository, 1_000, b"a"))
    repository.unlock()
    first = Repository(repository.folder)
    first.lock(running)
    for purpose in Purpose:
        if purpose in allowed:
            second = at(str(repository.folder), purpose)
            assert isinstance(second, Repository)
            assert len(second.points()) == 1
            second.unlock()
        else:
            with pytest.raises(CommandFailed, match=r"is in use by .*: try again when that is done"):
                at(str(repository.folder), purpose)
    first.unlock()


def test_a_copy_of_a_folder_is_read_without_a_lock(repository: Repository) -> None:
    repository.add(point(repository, 1_000, b"a"))
    (repository.folder / "reading").unlink()
    at(str(repository.folder), Purpose.READ)
    assert not (repository.folder / "reading").exists()


def test_a_folder_with_other_files_takes_no_backups(tmp_path: Path) -> None:
    """Pruning removes objects that no backup needs: the objects of git would be such ones."""
    git = tmp_path / "git"
    (git / "objects" / "ab").mkdir(parents=True)
    with pytest.raises(UsageFailed, match=r"has other files \(objects\): give an empty or a new folder"):
        at(str(git), Purpose.BACKUP)
    with pytest.raises(UsageFailed, match="no backup here; `kbroker backup"):
        at(str(git), Purpose.PRUNE)
    (tmp_path / "file").touch()
    with pytest.raises(UsageFailed, match="is not a folder"):
        at(str(tmp_path / "file"), Purpose.BACKUP)
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    at(str(tmp_path / "disk"), Purpose.BACKUP)


def test_pruning_removes_objects_alone(repository: Repository) -> None:
    other = repository.folder / "objects" / "ab" / "README"
    other.parent.mkdir(exist_ok=True)
    other.touch()
    repository.add(point(repository, 1_000, b"a"))
    repository.drop([])
    assert other.exists()


def test_a_point_that_is_pruned_meanwhile_is_not_listed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.add(point(repository, 1_000, b"a"))
    first = next((repository.folder / "points").iterdir())
    repository.add(point(repository, 2_000, b"b"))
    read = Repository._read

    def pruned(self: Repository, path: Path) -> Point:
        first.unlink(missing_ok=True)
        return read(self, path)

    monkeypatch.setattr(Repository, "_read", pruned)
    assert [one.time_ms for one in repository.points()] == [2_000]


def test_a_full_disk_is_named_and_the_part_is_removed(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    segment = repository.store_bytes(b"abc")
    monkeypatch.setattr("kbroker.cli.backup.repository.os.write", full)
    with pytest.raises(OSError, match=f"No space left on device: '{repository.folder}"):
        stored(repository, source(tmp_path, b"abc"), 3)
    assert not list((repository.folder / "objects").glob("*/*.writing"))
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/copy"):
        repository.fetch(segment, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_manifest_of_another_format_is_refused(repository: Repository) -> None:
    place = repository.add(Point(1, "c", 1, "d", SegmentFile(0, 0, ""), [], format=99))
    with pytest.raises(CommandFailed, match=r"format 99.*; move this file away to use the other backups"):
        repository.points()
    Path(place).write_text("{")
    with pytest.raises(CommandFailed, match="json"):
        repository.points()


def test_a_damaged_object_that_is_removed_is_stored_again(repository: Repository, tmp_path: Path) -> None:
    """As `backups verify` advises."""
    segment = source(tmp_path, b"abc")
    sha256 = stored(repository, segment, 3)
    repository.note("segment", sha256)
    repository.path(sha256).write_bytes(b"xyz")
    repository.path(sha256).unlink()
    assert repository.known("segment", 3) is None
    assert stored(repository, segment, 3) == sha256
    assert repository.path(sha256).read_bytes() == b"abc"


def test_a_linked_segment_is_on_disk_before_it_has_its_name(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker may have rolled it just now: after a power cut the backup lacked its last
    bytes."""
    linking, segment, synced = Repository(repository.folder, link=True), source(tmp_path, b"abc"), list[int]()
    sync = os.fsync

    def noted(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        sync(fd)

    monkeypatch.setattr(os, "fsync", noted)
    with open(segment, "rb") as opened:
        place = linking.path(linking.store(opened.fileno(), 3, whole=True))
    assert synced == [segment.stat().st_ino, place.parent.stat().st_ino]


def test_a_linked_segment_takes_no_room_and_stays_as_it_is(repository: Repository, tmp_path: Path) -> None:
    """Twice, and then with less of it: a link must never be opened for writing."""
    linking = Repository(repository.folder, link=True)
    segment = source(tmp_path, b"abc" * 1000)
    with open(segment, "rb") as opened:
        first = linking.store(opened.fileno(), 3000, whole=True)
        assert linking.store(opened.fileno(), 3000, whole=True) == first
        part = linking.store(opened.fileno(), 30)
        assert linking.store(opened.fileno(), 30, whole=True) == part  # it has grown: not all of it
    assert linking.path(first).stat().st_ino == segment.stat().st_ino
    growing = tmp_path / "active"
    growing.write_bytes(b"def")
    assert linking.path(stored(linking, growing, 3)).stat().st_ino != growing.stat().st_ino, "it may grow"
    assert linking.path(part).stat().st_ino != segment.stat().st_ino
    assert segment.read_bytes() == b"abc" * 1000
    assert not list((repository.folder / "objects").glob("*/*.writing"))
    segment.unlink()
    assert linking.path(first).read_bytes() == b"abc" * 1000


@pytest.mark.parametrize("inside", ["", "backups/daily"])
def test_a_log_dir_is_no_place_for_backups(inside: str, tmp_path: Path) -> None:
    """The broker would find the folders among those of its partitions, and restore needs both."""
    (tmp_path / "meta.properties").touch()
    with pytest.raises(UsageFailed, match=f"{tmp_path} is a broker's log dir"):
        at(str(tmp_path / inside), Purpose.BACKUP)
    assert [one.name for one in tmp_path.iterdir()] == ["meta.properties"]
