"""One sync of a partition: its worker begins it, any thread runs it, its worker finishes it."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from kbroker.io.files.segment import SegmentFds
from kbroker.ipc.crash_point import crash_point
from kbroker.log import files
from kbroker.log.checkpoint import sync_file


@dataclass(slots=True)
class FlushJob:
    """The files to sync so that everything below next_offset is on disk. The job owns its descriptors; `run`
    closes them.

    closed: base offset and open files of segments rolled since the last sync (their indexes and snapshot count,
    because recovery will not look at them again); active: descriptor of the active .log (its indexes are rebuilt),
    -1 to leave it out.
    segment_base, position: where next_offset lies. names: folder and file names, and the leader epoch that opening the
    log wrote, have not been synced yet.
    """

    folder: str
    closed: Sequence[tuple[int, SegmentFds]]
    active: int
    next_offset: int
    segment_base: int
    position: int
    records: int = 0
    names: bool = False

    @property
    def active_alone(self) -> bool:
        """Whether one fdatasync of the active .log is all of it."""
        return self.active >= 0 and not self.closed and not self.names

    def run(self) -> None:
        """Raises OSError: after a failed sync nothing of the log dir can be trusted."""
        try:
            for base, fds in self.closed:
                os.fdatasync(fds.log)
                os.fdatasync(fds.index)
                os.fdatasync(fds.time_index)
                for suffix in (files.TXN_INDEX, files.SNAPSHOT):
                    sync_if_exists(files.path(self.folder, base, suffix))
            if self.closed:
                sync_if_exists(files.path(self.folder, self.segment_base, files.SNAPSHOT))
            crash_point("sync: closed segments")
            if self.names:
                sync_if_exists(f"{self.folder}/{files.LEADER_EPOCH_CHECKPOINT}")
            if self.closed or self.names:
                files.sync_folder(self.folder)
            if self.names:
                files.sync_folder(files.log_dir_of(self.folder))
            if self.active >= 0:
                os.fdatasync(self.active)
            crash_point("sync: done, not published")
        finally:
            self.close()

    def close(self) -> None:
        """Give up the descriptors of a job that is not run."""
        for _, fds in self.closed:
            fds.close()
        self.closed = ()
        if self.active >= 0:
            os.close(self.active)
            self.active = -1


class Unsynced:
    """What of a log is not on disk, apart from records of the active segment. Runs in: io. Owner: the log.

    Segments rolled since the last sync, their files still open. names: folder and file names, since it was opened.
    """

    def __init__(self) -> None:
        self.names = False
        self._segments: list[tuple[int, SegmentFds]] = []

    def add(self, base_offset: int, fds: SegmentFds) -> None:
        """Take over the files of a segment that was just rolled."""
        self._segments.append((base_offset, fds))

    @property
    def first_base(self) -> int | None:
        """Base offset of the oldest of them: nothing from there on counts as synced yet."""
        return self._segments[0][0] if self._segments else None

    def duplicates(self) -> list[tuple[int, SegmentFds]]:
        """All of them, for a FlushJob."""
        return [(base, duplicate(fds)) for base, fds in self._segments]

    def drop(self, below: int = 1 << 62, above: int = -1) -> None:
        """Close those with above < base < below: they are synced, or they are deleted."""
        gone = [entry for entry in self._segments if above < entry[0] < below]
        self._segments = [entry for entry in self._segments if not above < entry[0] < below]
        for _, fds in gone:
            fds.close()


def duplicate(fds: SegmentFds) -> SegmentFds:
    """The same open files under descriptors of their own."""
    return SegmentFds(os.dup(fds.log), os.dup(fds.index), os.dup(fds.time_index))


def sync_if_exists(path: str) -> None:
    """fsync of a file that may have been deleted meanwhile."""
    with suppress(FileNotFoundError):
        sync_file(path)
