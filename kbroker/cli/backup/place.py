"""The interface of a place for backups: a folder, or a bucket of an S3-compatible store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from kbroker.cli.backup.point import Point, SegmentFile
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.failures import UsageFailed
from kbroker.log.files import META_PROPERTIES

BUCKET = "s3://"


class Backups(Protocol):
    """Owner: one command, which has locked it for its purpose."""

    def lock(self, purpose: Purpose) -> None:
        """Prepare the place for one command. Raises CommandFailed, OSError."""

    def known(self, key: str, size: int) -> str | None:
        """The checksum of a source file that is already stored whole; None otherwise."""

    def note(self, key: str, sha256: str) -> None:
        """Remember a source file that never changes."""

    def store(self, source: int, size: int, *, whole: bool = False) -> str:
        """Store the first `size` bytes of an open file; returns their checksum. whole: this is a
        complete closed segment. Raises CommandFailed, OSError."""

    def store_bytes(self, data: bytes) -> SegmentFile:
        """Store these bytes; returns their checksum."""

    def fetch(self, segment: SegmentFile, target: Path) -> None:
        """Write an object into a new file and verify its checksum. Raises CommandFailed,
        OSError."""

    def points(self) -> list[Point]:
        """All points, the oldest first. Raises CommandFailed."""

    def add(self, point: Point) -> str:
        """Write a point's manifest, which makes the point valid; returns its location."""

    def damaged(self, point: Point) -> Iterator[str]:
        """Missing objects and wrong checksums, a line each."""

    def drop(self, points: list[Point]) -> int:
        """Delete points and every object that no other point needs; returns the number of deleted
        objects."""


def at(place: str, purpose: Purpose, *, link: bool = False) -> Backups:
    """The backups at a folder or an s3:// address, locked. Raises UsageFailed, CommandFailed,
    OSError."""
    found: Backups
    if not place:
        raise UsageFailed("the place of the backups is empty; is a shell variable not set?")
    if place.startswith(BUCKET):
        from kbroker.cli.backup.bucket import Bucket

        if not place.removeprefix(BUCKET).strip("/"):
            raise UsageFailed(f"{place} names no bucket: expected s3://BUCKET/PREFIX")
        if link:
            raise UsageFailed("--link needs a folder on the file system of the log dirs")
        found = Bucket(place)
    elif "://" in place:
        raise UsageFailed(f"{place}: expected a folder or s3://BUCKET/PREFIX")
    else:
        from kbroker.cli.backup.repository import Repository

        if purpose is Purpose.BACKUP:
            refuse_log_dir(Path(place))
        elif not (Path(place) / "points").is_dir():
            raise UsageFailed(f"{place}: no backup here; `kbroker backup {place}` takes one")
        found = Repository(Path(place), link=link)
    found.lock(purpose)
    return found


def refuse_log_dir(folder: Path) -> None:
    """Raises UsageFailed for a folder that is a log dir or lies in one."""
    if log_dir := _log_dir_around(folder):
        raise UsageFailed(f"{log_dir} is a broker's log dir: give a folder outside of it")


def _log_dir_around(folder: Path) -> Path | None:
    """The log dir that the folder is, or lies in."""
    real = folder.resolve()
    return next((one for one in (real, *real.parents) if (one / META_PROPERTIES).is_file()), None)
