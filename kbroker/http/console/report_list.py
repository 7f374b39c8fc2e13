"""The list of reports. A file is read again only if it has changed."""

import threading

from msgspec import Struct
from msgspec.structs import replace

from kbroker.http.console.report_files import MAX_BYTES, NoReport, ReportFile, ReportFolder
from kbroker.http.console.reports import Report, report_of

MAX_FILES = 1000
"""Maximum number of files that are read, the newest first."""
MAX_READ = 64 << 20
"""Bytes that one request reads; the next request reads the rest."""


class Listed(Struct, frozen=True):
    """found: the reports, the newest first; without their tables. left_out: files that were not
    read. problem: the reason when there are none, else empty."""

    found: tuple[tuple[ReportFile, Report], ...] = ()
    left_out: int = 0
    problem: str = ""


class ReportList:
    """Runs in: http. Owner: the console. Thread-safe; one request lists at a time."""

    def __init__(self, folder: ReportFolder) -> None:
        self.folder = folder
        self._known: dict[tuple[str, tuple[int, int, int]], Report | None] = {}
        self._lock = threading.Lock()

    def listed(self) -> Listed:
        """The reports in the folder now."""
        with self._lock:
            try:
                files, more = self.folder.listed()
            except OSError as error:
                return Listed(problem=error.strerror or "the folder cannot be read")
            return self._read(files[:MAX_FILES], len(files[MAX_FILES:]) + more)

    def _read(self, files: list[ReportFile], left_out: int) -> Listed:
        known: dict[tuple[str, tuple[int, int, int]], Report | None] = {}
        room = MAX_READ
        for file in files:
            key = (file.name, file.mark)
            if key in self._known:
                known[key] = self._known[key]
                continue
            if file.size > min(MAX_BYTES, room):
                left_out += 1
                continue
            room -= file.size
            known[key] = self._summary(file.name)
        self._known = known
        found = tuple(
            (file, made) for file in files if (made := known.get((file.name, file.mark))) is not None
        )
        return Listed(found, left_out)

    def _summary(self, name: str) -> Report | None:
        try:
            made = report_of(self.folder.read(name)[1])
        except NoReport:
            return None
        return None if made is None else replace(made, tables=[])
