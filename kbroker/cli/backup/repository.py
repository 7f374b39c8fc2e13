"""A folder of backups: objects named by their SHA-256, and a manifest for each point.

objects/ab/ab12...      a segment or the metadata; written beside, synced, then renamed: what has its name is whole
points/TIME.json        a point, written last
journal                 closed segments that are stored already: an interrupted backup continues, and the next
                        one copies only what is new
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from kbroker.cli.backup.point import Point, SegmentFile, decode, encode, unreadable
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.log import files

_CHUNK: Final = 1 << 20
_FICLONE: Final = 0x40049409
_WRITING: Final = ".writing"
_OBJECT: Final = re.compile(r"[0-9a-f]{64}")
_ALSO_IN_EMPTY: Final = {"lost+found"}


class Repository:
    """Owner: one command, which has locked it for its purpose."""

    def __init__(self, folder: Path, *, link: bool = False) -> None:
        self.folder = folder
        self._link = link
        self._points = folder / "points"
        self._objects = folder / "objects"
        self._journal = folder / "journal"
        self._known: dict[str, str] = {}
        self._locks: list[int] = []

    def lock(self, purpose: Purpose = Purpose.BACKUP) -> None:
        """Lock the folder until this process ends; a backup creates it. Raises CommandFailed,
        UsageFailed, OSError."""
        if purpose is Purpose.BACKUP:
            self._create()
        if purpose in (Purpose.BACKUP, Purpose.PRUNE):
            self._take("lock", fcntl.LOCK_EX, "another backup or pruning")
            self._read_notes()
        if purpose is Purpose.PRUNE:
            self._take("reading", fcntl.LOCK_EX, "a restore or verification")
        elif purpose is Purpose.READ:
            with suppress(FileNotFoundError):  # a copy of a folder, perhaps read-only, which is not pruned
                self._take("reading", fcntl.LOCK_SH, "pruning")

    def _create(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageFailed(f"{self.folder} is not a folder")
        if not self._points.is_dir() and self.folder.is_dir():
            others = {path.name for path in self.folder.iterdir()} - _ALSO_IN_EMPTY
            if others:  # pruning would delete objects that are not its own
                raise UsageFailed(
                    f"{self.folder} has other files ({min(others)}): give an empty or a new folder"
                )
        for path in (self.folder, self._points, self._objects):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "reading").touch(0o600)  # here: its owner is the one who prunes, not the one who reads

    def _take(self, name: str, how: int, other: str) -> None:
        """how: LOCK_EX, which NFS grants only to a writer, or LOCK_SH."""
        access = os.O_RDONLY if how == fcntl.LOCK_SH else os.O_RDWR | os.O_CREAT
        lock = os.open(self.folder / name, access | os.O_CLOEXEC, 0o600)
        self._locks.append(lock)
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandFailed(f"{self.folder} is in use by {other}: try again when that is done") from None

    def _read_notes(self) -> None:
        for left in self.folder.glob(f"**/*{_WRITING}"):
            left.unlink()
        with suppress(FileNotFoundError):
            lines = self._journal.read_text().split("\n")[:-1]  # the last line may be torn
            noted = (line.rpartition(" ") for line in lines)
            self._known = {key: sha256 for key, _, sha256 in noted if key}

    def unlock(self) -> None:
        """Unlock the folder before the process ends."""
        while self._locks:
            os.close(self._locks.pop())

    # --- objects ---------------------------------------------------------------------------------------

    def path(self, sha256: str) -> Path:
        """The path of an object."""
        return self._objects / sha256[:2] / sha256

    def known(self, key: str, size: int) -> str | None:
        """The checksum of a source file that is stored already, whole."""
        sha256 = self._known.get(key)
        if sha256 is None:
            return None
        with suppress(FileNotFoundError):
            if self.path(sha256).stat().st_size == size:
                return sha256
        return None

    def note(self, key: str, sha256: str) -> None:
        """Remember a source file that never changes. If a crash loses the note, the file is copied
        again."""
        self._known[key] = sha256
        with open(self._journal, "a", opener=_private) as journal:
            journal.write(f"{key} {sha256}\n")

    def store(self, source: int, size: int, *, whole: bool = False) -> str:
        """Keep the first `size` bytes of an open file; its checksum. Raises CommandFailed,
        OSError."""
        folder = self._objects / f"{os.getpid() % 256:02x}"
        folder.mkdir(mode=0o700, exist_ok=True)
        writing = folder / f"{os.getpid()}{_WRITING}"
        writing.unlink(missing_ok=True)
        if self._link and whole and _linked(source, size, writing):
            sha256 = _checksum(source, size)
            os.fsync(source)  # its broker may not have done that yet
            self._name(writing, sha256)
            writing.unlink(missing_ok=True)  # rename keeps it if the object is already a link to this file
            return sha256
        with (
            _written(writing),
            open(writing, "xb", opener=_private) as out,  # never into an existing file: it may be a segment
        ):
            sha256 = _copy(source, size, out.fileno())
            os.fsync(out.fileno())
        self._name(writing, sha256)
        return sha256

    def store_bytes(self, data: bytes) -> SegmentFile:
        """Keep these bytes."""
        sha256 = hashlib.sha256(data).hexdigest()
        writing = self._objects / f"{os.getpid()}{_WRITING}"
        _write(writing, data)
        self._name(writing, sha256)
        return SegmentFile(0, len(data), sha256)

    def _name(self, writing: Path, sha256: str) -> None:
        place = self.path(sha256)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        writing.replace(place)
        files.sync_folder(str(place.parent))

    # --- points ----------------------------------------------------------------------------------------

    def points(self) -> list[Point]:
        """All points, the oldest first. Raises CommandFailed for an unreadable one."""
        found = []
        for path in sorted(self._points.iterdir()):  # glob would hide a folder that cannot be read
            if path.suffix == ".json":
                with suppress(FileNotFoundError):  # pruned meanwhile
                    found.append(self._read(path))
        return found

    def _read(self, path: Path) -> Point:
        try:
            return decode(path.read_bytes())
        except (msgspec.MsgspecError, ValueError) as error:
            raise unreadable(str(path), error) from None

    def fetch(self, segment: SegmentFile, target: Path) -> None:
        """Write an object into a new file, checked on the way. Raises CommandFailed, OSError."""
        source = self.path(segment.sha256)
        if not source.exists():
            raise CommandFailed(f"{source} is missing: the backup is damaged")
        clone(source, segment.size, segment.sha256, target)

    def add(self, point: Point) -> str:
        """Write a point's manifest, which makes the point valid."""
        files.sync_folder(str(self._objects))
        place = self._points / f"{point.name}.json"
        writing = place.with_suffix(_WRITING)
        _write(writing, encode(point))
        writing.replace(place)
        files.sync_folder(str(self._points))
        return str(place)

    def damaged(self, point: Point) -> Iterator[str]:
        """Missing objects and wrong checksums, a line each."""
        for segment in {one.sha256: one for one in point.objects()}.values():
            path = self.path(segment.sha256)
            try:
                with open(path, "rb") as source:
                    found = hashlib.file_digest(source, "sha256").hexdigest()
                if found != segment.sha256:
                    yield f"{path}: the checksum is {found}"
            except OSError as error:
                yield f"{path}: {error.strerror}"

    def drop(self, points: list[Point]) -> int:
        """Delete points and every object that no other point needs; returns the number of deleted
        objects."""
        for point in points:
            (self._points / f"{point.name}.json").unlink()
        files.sync_folder(str(self._points))
        needed = {one.sha256 for point in self.points() for one in point.objects()}
        objects = (path for path in self._objects.glob("*/*") if _OBJECT.fullmatch(path.name))
        gone = [path for path in objects if path.name not in needed]
        for path in gone:
            path.unlink()
        self._known = {key: sha256 for key, sha256 in self._known.items() if sha256 in needed}
        writing = self.folder / f"journal{_WRITING}"
        _write(writing, "".join(f"{key} {sha256}\n" for key, sha256 in self._known.items()).encode())
        writing.replace(self._journal)
        return len(gone)


def clone(source: Path, size: int, sha256: str, target: Path) -> None:
    """Write an object's bytes into a new file, checked on the way. Raises CommandFailed,
    OSError."""
    with _written(target), open(source, "rb") as opened, open(target, "wb", opener=_private) as out:
        found = _copy(opened.fileno(), size, out.fileno())
        os.fsync(out.fileno())
    if found != sha256:
        target.unlink()
        raise CommandFailed(f"{source} is damaged: the checksum is {found}")


def _copy(source: int, size: int, target: int) -> str:
    """Copy the first bytes of a file, sharing its blocks if the file system can; returns their
    checksum."""
    shared = False
    with suppress(OSError):
        fcntl.ioctl(target, _FICLONE, source)
        os.truncate(target, size)
        shared = True
    digest = hashlib.sha256()
    position = 0
    while position < size:
        chunk = os.pread(source, min(_CHUNK, size - position), position)
        if not chunk:
            raise CommandFailed(f"a file ends at byte {position}, before byte {size}")
        digest.update(chunk)
        if not shared:
            files.write_all(target, chunk)
        position += len(chunk)
    return digest.hexdigest()


def _linked(source: int, size: int, target: Path) -> bool:
    """Link an open file of this size; False on another file system, or if links are forbidden."""
    status = os.fstat(source)
    if status.st_size != size or not status.st_nlink:
        return False
    descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        # With a folder's descriptor Python calls linkat(2), which follows the link in /proc to the
        # file.
        os.link(str(source), target, src_dir_fd=descriptors, follow_symlinks=True)
    except OSError:
        return False
    finally:
        os.close(descriptors)
    return True


def _checksum(source: int, size: int) -> str:
    digest = hashlib.sha256()
    for position in range(0, size, _CHUNK):
        digest.update(os.pread(source, min(_CHUNK, size - position), position))
    return digest.hexdigest()


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Names the file in an error of a write, such as that of a full disk, and removes the part."""
    try:
        yield
    except (OSError, CommandFailed) as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def _write(path: Path, data: bytes) -> None:
    with _written(path), open(path, "wb", opener=_private) as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner can read: it has records and credentials."""
    return os.open(path, flags, 0o600)
