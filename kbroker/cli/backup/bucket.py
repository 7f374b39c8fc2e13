"""Backups in a bucket of an S3-compatible store, through obstore, with the names that a folder of
backups has.

The store writes objects atomically. Nothing is locked: objects are named by their contents and
points by their time, so two concurrent backups only do some work twice. Before a point is added,
all of its objects are checked again, because pruning may have removed some meanwhile."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from kbroker.cli.backup.point import Point, SegmentFile, decode, encode, unreadable
from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed

if TYPE_CHECKING:
    from obstore.store import S3Store

_CHUNK: Final = 8 << 20
_INSTANCE: Final = "http://169.254.169.254/"
"""Metadata service of a cloud. The library requests credentials from it if none are configured, on
every host."""
_NO_ANSWER: Final = re.compile(r"Error performing [A-Z]+ (\S+) in .* - HTTP error: ")
"""The library's text about a request without an HTTP answer: no connection, or none in time."""
_OBJECT: Final = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{64}")
_NOTES: Final = 32
"""The journal is written after this many closed segments. An interrupted backup reads at most these
again."""


class Bucket:
    """Runs in: one command. address: s3://BUCKET/PREFIX; credentials, region and endpoint come from
    AWS_* variables."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self._known: dict[str, str] = {}
        self._held: dict[str, int] = {}
        self._unwritten = 0
        self._store = self._open()

    def _open(self) -> "S3Store":
        try:
            from obstore.store import S3Store
        except ModuleNotFoundError as missing:
            raise UsageFailed("obstore is not installed; try: pip install 'kbroker[s3]'") from missing
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        options: Any = {"client_options": {"allow_http": endpoint.startswith("http://"), "timeout": "600s"}}
        if endpoint:
            options["endpoint"] = endpoint
        if "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ:
            options["region"] = "us-east-1"
        try:
            return S3Store.from_url(self.address, **options)
        except Exception as error:
            raise UsageFailed(f"{self.address}: {_text(error)}") from error

    def lock(self, purpose: Purpose = Purpose.BACKUP) -> None:
        """Read the names of objects and the journal, if the command writes. Raises
        CommandFailed."""
        if purpose in (Purpose.LIST, Purpose.READ):
            return
        self._held = {path.rpartition("/")[2]: size for path, size in self._list("objects/")}
        with suppress(FileNotFoundError):
            noted = (line.rpartition(" ") for line in self._get("journal").decode().split("\n"))
            self._known = {key: sha256 for key, _, sha256 in noted if key}

    # --- objects ---------------------------------------------------------------------------------------

    def known(self, key: str, size: int) -> str | None:
        """SHA-256 of a segment that an earlier backup stored, by its key and size; None if it is
        not in the bucket. As of the start of this command."""
        sha256 = self._known.get(key)
        return sha256 if sha256 is not None and self._held.get(sha256) == size else None

    def note(self, key: str, sha256: str) -> None:
        """The journal is one object; it is written after several segments, and with the point."""
        self._known[key] = sha256
        self._unwritten += 1
        if self._unwritten >= _NOTES:
            self._write_journal()

    def _write_journal(self) -> None:
        text = "".join(f"{key} {sha256}\n" for key, sha256 in self._known.items())
        self._put("journal", text.encode())
        self._unwritten = 0

    def store(self, source: int, size: int, *, whole: bool = False) -> str:  # noqa: ARG002
        """The name is the checksum, so the file is read once for its name, and again if the store
        lacks it."""
        digest = hashlib.sha256()
        for chunk in _chunks(source, size):
            digest.update(chunk)
        sha256 = digest.hexdigest()
        if self._held.get(sha256) != size:
            self._put(_object(sha256), _chunks(source, size))
            self._held[sha256] = size
        return sha256

    def store_bytes(self, data: bytes) -> SegmentFile:
        """Store bytes under their checksum."""
        sha256 = hashlib.sha256(data).hexdigest()
        if self._held.get(sha256) != len(data):
            self._put(_object(sha256), data)
            self._held[sha256] = len(data)
        return SegmentFile(0, len(data), sha256)

    def fetch(self, segment: SegmentFile, target: Path) -> None:
        """Stream an object into a file; a file with a wrong checksum is removed. An object that is
        longer than it was is not read to its end, which may not come."""
        digest, left = hashlib.sha256(), segment.size
        try:
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                for chunk in self._stream(_object(segment.sha256)):
                    digest.update(chunk)
                    if (left := left - len(chunk)) < 0:
                        break
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
        except FileNotFoundError:
            raise CommandFailed(f"{self._shown(segment.sha256)} is missing: the backup is damaged") from None
        if digest.hexdigest() != segment.sha256:
            target.unlink()
            raise CommandFailed(
                f"{self._shown(segment.sha256)} is damaged: the checksum is {digest.hexdigest()}"
            )

    # --- points ----------------------------------------------------------------------------------------

    def points(self) -> list[Point]:
        """Raises CommandFailed for an unreadable one."""
        found = []
        for path in sorted(path for path, _ in self._list("points/") if path.endswith(".json")):
            try:
                found.append(decode(self._get(path)))
            except FileNotFoundError:  # pruned meanwhile
                continue
            except (msgspec.MsgspecError, ValueError) as error:
                raise unreadable(f"{self.address}/{path}", error) from None
        return found

    def add(self, point: Point) -> str:
        """Raises CommandFailed when an object is missing."""
        self.lock_again()
        for one in point.objects():
            if self._held.get(one.sha256) != one.size:
                raise CommandFailed(f"{self._shown(one.sha256)} was removed meanwhile: take the backup again")
        path = f"points/{point.name}.json"
        self._put(path, encode(point))
        return f"{self.address}/{path}"

    def lock_again(self) -> None:
        """Write the journal, then list the objects again."""
        self._write_journal()
        self._held = {path.rpartition("/")[2]: size for path, size in self._list("objects/")}

    def damaged(self, point: Point) -> Iterator[str]:
        """Read every object."""
        for segment in {one.sha256: one for one in point.objects()}.values():
            digest = hashlib.sha256()
            try:
                for chunk in self._stream(_object(segment.sha256)):
                    digest.update(chunk)
                if digest.hexdigest() != segment.sha256:
                    yield f"{self._shown(segment.sha256)}: the checksum is {digest.hexdigest()}"
            except FileNotFoundError:
                yield f"{self._shown(segment.sha256)}: No such object"

    def drop(self, points: list[Point]) -> int:
        """Delete the points first: after an interruption the next pruning removes the unused
        objects. Other files of the bucket remain, whatever their folder."""
        self._delete([f"points/{point.name}.json" for point in points])
        needed = {one.sha256 for point in self.points() for one in point.objects()}
        paths = [path for path, _ in self._list("objects/") if _OBJECT.fullmatch(path)]
        gone = [path for path in paths if path.rpartition("/")[2] not in needed]
        self._delete(gone)
        self._known = {key: sha256 for key, sha256 in self._known.items() if sha256 in needed}
        self._write_journal()
        return len(gone)

    # --- the store -------------------------------------------------------------------------------------

    def _shown(self, sha256: str) -> str:
        return f"{self.address}/{_object(sha256)}"

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        try:
            for page in self._store.list(prefix):
                for one in page:
                    # Paths of a listing are relative to the store's prefix.
                    yield str(one["path"]), int(one["size"])
        except Exception as error:
            raise self._failed(error) from error

    def _get(self, path: str) -> bytes:
        return b"".join(self._stream(path))

    def _stream(self, path: str) -> Iterator[bytes]:
        try:
            for chunk in self._store.get(path).stream(min_chunk_size=_CHUNK):
                yield bytes(chunk)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _put(self, path: str, data: bytes | Iterator[bytes]) -> None:
        try:
            self._store.put(path, data)
        except CommandFailed:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def _delete(self, paths: list[str]) -> None:
        try:
            if paths:
                self._store.delete(paths)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> CommandFailed:
        text = _text(error)
        if no_answer := _NO_ANSWER.search(text):
            place = urlsplit(no_answer[1]).netloc
            return Unreachable(f"{self.address}: no answer from {place}; is AWS_ENDPOINT_URL right?")
        return CommandFailed(f"{self.address}: {text}")


def _object(sha256: str) -> str:
    return f"objects/{sha256[:2]}/{sha256}"


def _text(error: Exception) -> str:
    """The first line of an error; the library appends debugging output."""
    line = next(iter(str(error).splitlines()), type(error).__name__)[:500]
    if _INSTANCE in line:
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return line


def _chunks(source: int, size: int) -> Iterator[bytes]:
    position = 0
    while position < size:
        chunk = os.pread(source, min(_CHUNK, size - position), position)
        if not chunk:
            raise CommandFailed(f"a file ends at byte {position}, before byte {size}")
        yield chunk
        position += len(chunk)
