"""Backups in a bucket, with a store in memory: names, journal, checks of objects, and errors."""

import hashlib
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.backup import bucket as module
from kbroker.cli.backup.bucket import Bucket
from kbroker.cli.backup.place import at
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed

ADDRESS = "s3://backups/here"


class Store:
    """Objects by path. puts: paths in the order of their writes. error: raised by each call."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.error: Exception | None = None

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error

    def put(self, path: str, data: bytes | Iterator[bytes]) -> None:
        self._fail()
        self.objects[path] = data if isinstance(data, bytes) else b"".join(data)
        self.puts.append(path)

    def get(self, path: str) -> Any:
        self._fail()
        if path not in self.objects:
            raise FileNotFoundError(path)
        data = self.objects[path]
        pieces = [data[at : at + 2] for at in range(0, len(data), 2)]
        return SimpleNamespace(stream=lambda min_chunk_size: iter(pieces))

    def delete(self, paths: list[str]) -> None:
        self._fail()
        assert paths, "a call without a path is an error of the store"
        for path in paths:
            del self.objects[path]

    def list(self, prefix: str) -> Iterator[Any]:
        self._fail()
        for path in sorted(self.objects, reverse=True):
            if path.startswith(prefix):
                yield [{"path": path, "size": len(self.objects[path])}]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(Bucket, "_open", lambda _: made)
    return made


@pytest.fixture
def bucket(store: Store) -> Bucket:
    return opened()


def opened(purpose: Purpose = Purpose.BACKUP) -> Bucket:
    """As the next command opens it."""
    made = Bucket(f"{ADDRESS}/")
    made.lock(purpose)
    return made


def path_of(sha256: str) -> str:
    return f"objects/{sha256[:2]}/{sha256}"


def point(bucket: Bucket, time_ms: int, *contents: bytes) -> Point:
    segments = [bucket.store_bytes(data) for data in contents]
    partition = PartitionFiles("orders", 0, "A" * 22, 0, 9, segments)
    return Point(time_ms, "cluster", 1, "directory", bucket.store_bytes(b"metadata"), [partition])


def stored(bucket: Bucket, tmp_path: Path, data: bytes, size: int) -> str:
    (tmp_path / "segment").write_bytes(data)
    with open(tmp_path / "segment", "rb") as segment:
        return bucket.store(segment.fileno(), size)


def test_an_object_is_stored_once_under_its_checksum(
    bucket: Bucket, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 4)
    sha256 = stored(bucket, tmp_path, b"0123456789", 9)
    assert sha256 == hashlib.sha256(b"012345678").hexdigest()
    assert store.objects == {path_of(sha256): b"012345678"}
    assert stored(bucket, tmp_path, b"012345678", 9) == sha256
    assert bucket.store_bytes(b"012345678") == SegmentFile(0, 9, sha256)
    assert stored(opened(), tmp_path, b"012345678", 9) == sha256
    assert store.puts == [path_of(sha256)]
    with pytest.raises(CommandFailed, match="a file ends at byte 3, before byte 4"):
        stored(bucket, tmp_path, b"abc", 4)


def test_an_object_of_another_size_is_stored_again(bucket: Bucket, store: Store, tmp_path: Path) -> None:
    """Its write was cut off."""
    segment = bucket.store_bytes(b"abc")
    store.objects[path_of(segment.sha256)] = b"a"
    again = opened()
    assert again.store_bytes(b"abc") == segment
    assert store.objects == {path_of(segment.sha256): b"abc"}
    store.objects[path_of(segment.sha256)] = b"a"
    assert stored(opened(), tmp_path, b"abc", 3) == segment.sha256
    assert store.objects == {path_of(segment.sha256): b"abc"}


def test_the_journal_is_written_after_some_notes_and_with_each_point(bucket: Bucket, store: Store) -> None:
    sha256 = bucket.store_bytes(b"abc").sha256
    for number in range(module._NOTES):
        assert "journal" not in store.objects
        bucket.note(f"with blanks {number}", sha256)
    assert store.objects["journal"].decode().splitlines()[0] == f"with blanks 0 {sha256}"
    bucket.note("last", sha256)
    assert "last" not in store.objects["journal"].decode()
    assert store.puts.count("journal") == 1
    again = opened()
    assert again.known("with blanks 31", 3) == sha256
    assert [again.known("with blanks 31", 4), again.known("last", 3)] == [None, None]
    bucket.add(point(bucket, 1000, b"abc"))
    assert opened().known("last", 3) == sha256
    del store.objects[path_of(sha256)]
    assert opened().known("last", 3) is None


def test_an_object_that_does_not_end_is_not_read_to_its_end(
    bucket: Bucket, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that was taken over filled the disk."""
    segment = bucket.store_bytes(b"abc")
    endless = SimpleNamespace(stream=lambda min_chunk_size: repeat(b"abc"))
    monkeypatch.setattr(store, "get", lambda _: endless)
    with pytest.raises(CommandFailed, match="is damaged"):
        bucket.fetch(segment, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


@pytest.mark.parametrize("purpose", [Purpose.LIST, Purpose.READ])
def test_a_command_that_reads_needs_no_names_of_objects(store: Store, purpose: Purpose) -> None:
    store.error = OSError("no list")
    opened(purpose)
    with pytest.raises(CommandFailed, match=f"{ADDRESS}: no list"):
        opened(Purpose.PRUNE)


def test_an_object_is_fetched_and_checked(bucket: Bucket, store: Store, tmp_path: Path) -> None:
    segment, target = bucket.store_bytes(b"abcde"), tmp_path / "copy"
    target.write_bytes(b"longer than it")
    bucket.fetch(segment, target)
    assert target.read_bytes() == b"abcde"
    store.objects[path_of(segment.sha256)] = b"other"
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(CommandFailed, match=f"{path_of(segment.sha256)} is damaged: the checksum is {other}"):
        bucket.fetch(segment, target)
    assert not target.exists()
    del store.objects[path_of(segment.sha256)]
    with pytest.raises(CommandFailed, match=f"{ADDRESS}/{path_of(segment.sha256)} is missing"):
        bucket.fetch(segment, target)


def test_points_are_listed_by_time_without_other_files(bucket: Bucket, store: Store) -> None:
    late, early = point(bucket, 2000, b"b"), point(bucket, 1000, b"a")
    for one in (late, early):
        assert bucket.add(one) == f"{ADDRESS}/points/{one.name}.json"
    store.objects["points/README"] = b"no point"
    assert opened(Purpose.LIST).points() == [early, late]
    store.objects["points/x.json"] = b"{"
    with pytest.raises(CommandFailed, match=f"{ADDRESS}/points/x.json: .*; move this file away"):
        bucket.points()


def test_a_point_that_is_pruned_meanwhile_is_not_listed(
    bucket: Bucket, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone = point(bucket, 1000, b"a"), point(bucket, 2000, b"b")
    bucket.add(kept)
    bucket.add(gone)
    get = store.get

    def pruned(path: str) -> Any:
        store.objects.pop(f"points/{gone.name}.json", None)
        return get(path)

    monkeypatch.setattr(store, "get", pruned)
    assert bucket.points() == [kept]


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_point_whose_object_was_removed_meanwhile_is_not_added(
    bucket: Bucket, store: Store, damage: str
) -> None:
    made = point(bucket, 1000, b"abc")
    path = path_of(made.partitions[0].segments[0].sha256)
    if damage == "gone":
        del store.objects[path]
    else:
        store.objects[path] = b"a"
    with pytest.raises(CommandFailed, match=f"{path} was removed meanwhile: take the backup again"):
        bucket.add(made)
    assert bucket.points() == []


def test_damage_is_named_once_for_each_object(bucket: Bucket, store: Store) -> None:
    made = point(bucket, 1000, b"same", b"same", b"lost", b"whole")
    same, _, lost, _ = (segment.sha256 for segment in made.partitions[0].segments)
    assert list(bucket.damaged(made)) == []
    store.objects[path_of(same)] = b"other"
    del store.objects[path_of(lost)]
    assert sorted(bucket.damaged(made)) == sorted(
        [
            f"{ADDRESS}/{path_of(same)}: the checksum is {hashlib.sha256(b'other').hexdigest()}",
            f"{ADDRESS}/{path_of(lost)}: No such object",
        ]
    )


def test_pruning_removes_the_objects_and_notes_that_no_point_needs(bucket: Bucket, store: Store) -> None:
    old, new = point(bucket, 1000, b"a", b"shared"), point(bucket, 2000, b"shared", b"c")
    for one in (old, new):
        bucket.add(one)
        for segment in one.partitions[0].segments:
            bucket.note(f"{one.time_ms} {segment.size} {segment.sha256[:4]}", segment.sha256)
    assert bucket.drop([old]) == 1
    assert bucket.points() == [new]
    assert list(bucket.damaged(new)) == []
    assert len([path for path in store.objects if path.startswith("objects/")]) == 3
    assert len(store.objects["journal"].decode().splitlines()) == 3
    assert bucket.drop([]) == 0


def test_pruning_keeps_files_that_are_not_of_the_backup(bucket: Bucket, store: Store) -> None:
    """A bucket may have other files, also in a folder of that name."""
    others = ["objects/photo.jpg", "objects/ab/cd/ef", f"objects/x/{'0' * 64}"]
    store.objects.update((path, b"other") for path in others)
    one = point(bucket, 1000, b"a")
    bucket.add(one)
    assert bucket.drop([one]) == 2
    assert sorted(store.objects) == sorted(["journal", *others])


@pytest.mark.parametrize(
    ("error", "text", "kind"),
    [
        (OSError("first line\nsecond line"), f"{ADDRESS}: first line", CommandFailed),
        (OSError(""), f"{ADDRESS}: OSError", CommandFailed),
        (OSError("x" * 600), f"{ADDRESS}: {'x' * 500}", CommandFailed),
        (
            OSError("Error performing GET http://minio:9000/b?list in 2s - HTTP error: refused"),
            f"{ADDRESS}: no answer from minio:9000; is AWS_ENDPOINT_URL right?",
            Unreachable,
        ),
    ],
)
def test_each_call_names_the_error_of_the_store(
    bucket: Bucket, store: Store, tmp_path: Path, error: Exception, text: str, kind: type[CommandFailed]
) -> None:
    made = point(bucket, 1000, b"a")
    bucket.add(made)
    store.error = error
    for call in (
        bucket.points,
        lambda: bucket.store_bytes(b"new"),
        lambda: bucket.fetch(made.metadata, tmp_path / "copy"),
        lambda: bucket.drop([made]),
        lambda: list(bucket.damaged(made)),
    ):
        with pytest.raises(CommandFailed) as failure:
            call()
        assert (str(failure.value), type(failure.value)) == (text, kind)


def test_only_a_bucket_is_a_place_in_a_store(store: Store) -> None:
    for place in ("s3://", "s3:///"):
        with pytest.raises(UsageFailed, match="names no bucket"):
            at(place, Purpose.BACKUP)
    with pytest.raises(UsageFailed, match="--link needs a folder"):
        at(ADDRESS, Purpose.BACKUP, link=True)
    with pytest.raises(UsageFailed, match="expected a folder or s3"):
        at("gs://bucket/x", Purpose.BACKUP)
    with pytest.raises(UsageFailed, match="is empty; is a shell variable not set"):
        at("", Purpose.BACKUP)
    assert isinstance(at(ADDRESS, Purpose.LIST), Bucket)
