"""The folder of reports: the files that may be reports, and their bytes. Nothing outside of the
folder is ever read."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

MAX_BYTES = 16 << 20
"""Maximum size of a file; larger ones are not read."""
MAX_DEPTH = 3
"""Maximum depth of folders below the configured one: reports/load/TIME/verdict.json has two."""
MAX_ENTRIES = 20_000
"""Maximum number of names that one listing reads, over all folders."""
RUN = "run.json"
"""Marks the folder of a load test; its subfolders hold histories."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""A link is refused, whatever its target; a pipe does not block its reader."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class NoReport(Exception):
    """The file does not exist, or may not be read."""


class ReportFile(Struct, frozen=True):
    """name: below the folder, parts separated by slashes. mark: changes with the content."""

    name: str
    size: int
    written_ms: int
    mark: tuple[int, int, int]


class ReportFolder:
    """Runs in: http. Keeps no file open; thread-safe. path: from the setting; may be a link."""

    def __init__(self, path: str) -> None:
        self.path = path

    def listed(self) -> tuple[list[ReportFile], bool]:
        """Files that may be reports, the newest first, and whether the listing stopped at its limit
        of names. Raises OSError if the folder cannot be read."""
        found: list[ReportFile] = []
        left = [MAX_ENTRIES]
        folder = os.open(self.path, FOLDER & ~os.O_NOFOLLOW)
        try:
            found.extend(_files(folder, "", MAX_DEPTH, left))
        finally:
            os.close(folder)
        return sorted(found, key=lambda file: (-file.written_ms, file.name)), left[0] < 0

    def read(self, name: str) -> tuple[ReportFile, bytes]:
        """A file and its bytes. Raises NoReport."""
        parts = name.split("/")
        if not 1 <= len(parts) <= MAX_DEPTH + 1 or not all(_is_name(part) for part in parts):
            raise NoReport(name)
        if not parts[-1].endswith(".json"):
            raise NoReport(name)
        try:
            return self._read(name, parts)
        except OSError as error:
            raise NoReport(name) from error

    def _read(self, name: str, parts: list[str]) -> tuple[ReportFile, bytes]:
        at = os.open(self.path, FOLDER & ~os.O_NOFOLLOW)
        try:
            for part in parts[:-1]:
                deeper = os.open(part, FOLDER, dir_fd=at)
                os.close(at)
                at = deeper
            handle = os.open(parts[-1], FILE, dir_fd=at)
        finally:
            os.close(at)
        with open(handle, "rb") as file:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
                raise NoReport(name)
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:  # it grows
            raise NoReport(name)
        return _file(name, facts), data


def _file(name: str, facts: os.stat_result) -> ReportFile:
    mark = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
    return ReportFile(name, facts.st_size, facts.st_mtime_ns // 1_000_000, mark)


def _files(folder: int, above: str, deeper: int, left: list[int]) -> Iterator[ReportFile]:
    """Files of an open folder and its subfolders. left: how many names may still be read; negative
    if there were more."""
    folders: list[str] = []
    is_run = False
    with os.scandir(folder) as entries:
        for entry in entries:
            left[0] -= 1
            if left[0] < 0:
                return
            is_run |= entry.name == RUN
            if not _is_name(entry.name):
                continue
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                    yield _file(above + entry.name, entry.stat(follow_symlinks=False))
    for name in sorted(folders, reverse=True) if deeper and not is_run else ():
        with suppress(OSError):
            below = os.open(name, FOLDER, dir_fd=folder)
            try:
                yield from _files(below, f"{above}{name}/", deeper - 1, left)
            finally:
                os.close(below)


def _is_name(text: str) -> bool:
    """Whether a file of this name is shown: the name is text, not hidden, and does not leave the
    folder."""
    if not text or text.startswith(".") or _CONTROL.search(text):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
