"""Backups in a bucket, at moto's S3 server on loopback."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.cli.backup.bucket import Bucket, _text
from kbroker.cli.backup.place import at
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from tests.cli.backup.s3_server import environment, s3_server
from tests.cli.conftest import Shell

pytestmark = pytest.mark.slow  # the server takes a second or two


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as found:
        yield found


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    made = Bucket(f"s3://backups/{tmp_path.name}/")
    made.lock()
    return made


def reopened(bucket: Bucket) -> Bucket:
    again = Bucket(bucket.address)
    again.lock()
    return again


def stored(bucket: Bucket, tmp_path: Path, data: bytes, size: int) -> str:
    path = tmp_path / "segment"
    path.write_bytes(data)
    with open(path, "rb") as opened:
        return bucket.store(opened.fileno(), size)


def point(bucket: Bucket, time_ms: int, *contents: bytes) -> Point:
    segments = [bucket.store_bytes(data) for data in contents]
    partition = PartitionFiles("orders", 0, "A" * 22, 0, 9, segments, [(1, 0)])
    return Point(time_ms, "cluster", 1, "directory", bucket.store_bytes(b"metadata"), [partition])


def test_a_large_object_comes_back_complete(bucket: Bucket, tmp_path: Path) -> None:
    data = os.urandom(20 << 20)  # several parts
    sha256 = stored(bucket, tmp_path, data, len(data) - 5)
    target = tmp_path / "copy"
    bucket.fetch(SegmentFile(0, len(data) - 5, sha256), target)
    assert target.read_bytes() == data[:-5]
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(CommandFailed, match="ends at byte 3"):
        stored(bucket, tmp_path, b"abc", 4)


def test_points_and_notes_are_found_by_the_next_command(bucket: Bucket) -> None:
    late, early = point(bucket, 2_000, b"b"), point(bucket, 1_000, b"a")
    bucket.note("/data with blanks/a-0/0:1:1:5", late.partitions[0].segments[0].sha256)
    for one in (late, early):
        assert bucket.add(one).startswith(bucket.address)
    again = reopened(bucket)
    assert again.points() == [early, late]
    assert again.known("/data with blanks/a-0/0:1:1:5", 1) == late.partitions[0].segments[0].sha256
    assert again.known("/data with blanks/a-0/0:1:1:5", 2) is None


def test_pruning_keeps_what_a_point_needs(bucket: Bucket) -> None:
    old, new = point(bucket, 1_000, b"a", b"shared"), point(bucket, 2_000, b"shared", b"c")
    bucket.add(old)
    bucket.add(new)
    assert bucket.drop([old]) == 1
    again = reopened(bucket)
    assert again.points() == [new]
    assert not list(again.damaged(new))


def test_damage_and_loss_are_found(bucket: Bucket, tmp_path: Path) -> None:
    one = point(bucket, 1_000, b"a", b"b")
    first, second = one.partitions[0].segments
    bucket._put(f"objects/{first.sha256[:2]}/{first.sha256}", b"x")
    bucket._delete([f"objects/{second.sha256[:2]}/{second.sha256}"])
    assert len(list(bucket.damaged(one))) == 2
    for expected, why in ((first, "is damaged"), (second, "is missing")):
        with pytest.raises(CommandFailed, match=why):
            bucket.fetch(expected, tmp_path / f"copy{why}")
    with pytest.raises(CommandFailed, match="removed meanwhile"):
        bucket.add(one)
    assert not reopened(bucket).points()


def test_without_credentials_the_variables_are_named() -> None:
    requested = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 4s"
    assert _text(OSError(requested)) == "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    assert _text(OSError("no such bucket\nDebug source: ...")) == "no such bucket"


def test_a_wrong_address_is_reported_in_one_line(bucket: Bucket) -> None:
    with pytest.raises(CommandFailed, match="s3://missing"):
        at("s3://missing/x", Purpose.BACKUP)
    with pytest.raises(UsageFailed, match="--link"):
        at(bucket.address, Purpose.BACKUP, link=True)


def test_a_store_that_does_not_answer_is_unreachable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    (line,) = shell("backups", "list", "s3://backups/x", code=ExitCode.UNREACHABLE).stderr.splitlines()
    assert line == "kbroker: s3://backups/x: no answer from 127.0.0.1:1; is AWS_ENDPOINT_URL right?"
