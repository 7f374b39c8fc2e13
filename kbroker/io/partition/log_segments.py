"""The segments of one log: rolls, deletes, truncates and replaces them (Kafka's LocalLog and
LogSegments).

Works only on files and the append row. Its callers handle leader epochs, producers, and the slot
that other processes read.
"""

import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kbroker.config.topic import TopicConfig
from kbroker.io.files import segment
from kbroker.io.files.segment import (
    ActiveState,
    Segment,
    SegmentFds,
    largest_timestamp,
    mark_deleted,
    open_files,
)
from kbroker.io.partition.active_segment import ActiveSegment
from kbroker.io.partition.deletions import Deletions
from kbroker.io.recovery.segment_scan import Scan, first_timestamp, rebuild_indexes, resume
from kbroker.ipc.cleaning_messages import SwapSegments
from kbroker.ipc.crash_point import crash_point
from kbroker.kernels import search
from kbroker.kernels.scan_rows import FoundPlace, Located
from kbroker.log import files, transaction_index
from kbroker.log.transaction_index import seal

NO_CUT = 1 << 62
MANY_SEGMENTS = 2000
"""Segments of a log from which on small ones are rolled once in SLOW_ROLL_MS: a client may let each
batch have a segment, and all processes that read the log list its files again at each roll."""
MANY_UNSYNCED = 32
"""Segments that wait for their sync, of a log, from which on small ones are rolled slowly, too.
Each has three open files, three more in its sync, and takes a third of a millisecond."""
SLOW_ROLL_MS = 60_000


class Unsynced:
    """Files of a log that are not on disk, apart from records of the active segment. Runs in: io.
    Owner: the log.

    Segments rolled since the last sync, their files still open, and those that an earlier process
    may not have synced, without files. names: folder and file names, since the log was opened or
    truncated.
    """

    def __init__(self) -> None:
        self.names = False
        self._segments: list[tuple[int, SegmentFds | None]] = []

    def add(self, base_offset: int, fds: SegmentFds | None) -> None:
        """Take over the files of a segment that was just rolled."""
        self._segments.append((base_offset, fds))

    @property
    def count(self) -> int:
        """Number of these segments."""
        return len(self._segments)

    @property
    def first_base(self) -> int | None:
        """Base offset of the oldest one; records from there on do not count as synced."""
        segments = self._segments  # the loop replaces it
        return segments[0][0] if segments else None

    def duplicates(self) -> list[tuple[int, SegmentFds | None]]:
        """Duplicates of all open files, for a FlushJob. Raises OSError."""
        made: list[tuple[int, SegmentFds | None]] = []
        try:
            for base, fds in self._segments:
                made.append((base, fds.duplicate() if fds else None))
        except OSError:
            for _, fds in made:
                if fds is not None:
                    fds.close()
            raise
        return made

    def drop(self, below: int = 1 << 62, above: int = -1) -> None:
        """Close the files of segments with above < base < below, which were synced or deleted."""
        gone = [entry for entry in self._segments if above < entry[0] < below]
        self._segments = [entry for entry in self._segments if not above < entry[0] < below]
        for _, fds in gone:
            if fds is not None:
                fds.close()


class LogSegments:
    """Runs in: io. Owner: the IO worker, by its UnifiedLog. Not thread-safe. Times are wall clock
    ms.

    folder: the partition's. closed: segments without the active one, oldest first. unsynced: what
    is not on disk. cuts, lowest_cut: truncations that are done, and the lowest offset of all.
    After an OSError of any method the log dir cannot be trusted any more.
    """

    def __init__(
        self,
        folder: str,
        config: TopicConfig,
        active: ActiveSegment,
        deletions: Deletions,
    ) -> None:
        self.folder = folder
        self.config = config
        self.active = active
        self.unsynced = Unsynced()
        self.closed: list[Segment] = []
        self._closed_bytes = 0  # of each roll a sum over thousands of segments would take a millisecond
        self.cuts, self.lowest_cut = 0, NO_CUT
        self._deletions = deletions

    @property
    def base_offsets(self) -> list[int]:
        return [*(segment.base_offset for segment in self.closed), self.active.base_offset]

    @property
    def first_base(self) -> int:
        """Base offset of the oldest segment. Other threads call this, too."""
        closed = self.closed  # the loop replaces it
        return closed[0].base_offset if closed else self.active.base_offset

    @property
    def sizes(self) -> list[int]:
        """Bytes of each segment, oldest first, the active one last."""
        return [*(segment.size for segment in self.closed), self.active.position]

    def oldest(self, max_segments: int) -> tuple[list[int], list[int], int | None]:
        """Base offsets and bytes of the oldest segments, and the base offset of the next one; None
        if these are all. A log may have very many."""
        if max_segments > len(self.closed):
            return self.base_offsets, self.sizes, None
        some = self.closed[:max_segments]
        end = (
            self.closed[max_segments].base_offset
            if max_segments < len(self.closed)
            else self.active.base_offset
        )
        return [one.base_offset for one in some], [one.size for one in some], end

    @property
    def first_unsynced_base(self) -> int:
        """Base offset of the oldest segment that is not closed and synced. Other threads call this,
        too."""
        active = self.active.base_offset  # read first: the loop may roll meanwhile
        rolled = self.unsynced.first_base
        return active if rolled is None else rolled

    def older_until(self, timestamp: int, offset: int, mark: int, max_segments: int) -> int:
        """The offset from which on records may reach a time, as far as the closed segments from an
        offset on are known to be older: of `max_segments` of them, and not beyond a mark."""
        at = max(bisect_right(self.closed, offset, key=_base_of) - 1, 0)
        some = self.closed[at : at + max_segments + 1]
        ends = [one.base_offset for one in some[1:]] + [self.active.base_offset] * (len(some) <= max_segments)
        for one, end in zip(some, ends, strict=False):
            largest = one.max_timestamp  # None: its file must be read
            if largest is None or not 0 <= largest < timestamp or end > mark:
                break
            offset = max(offset, end)
        return offset

    def shapes_from(self, offset: int, max_segments: int) -> list[tuple[int, int]]:
        """(base offset, bytes) of segments from the one with an offset on, at least one."""
        at = max(bisect_right(self.closed, offset, key=_base_of) - 1, 0)
        some = [(one.base_offset, one.size) for one in self.closed[at : at + max_segments]]
        if len(some) < max_segments:
            some.append((self.active.base_offset, self.active.position))
        return some

    def largest_timestamp(self, n: int) -> int:
        """Largest timestamp of the n-th segment (ms)."""
        if n < len(self.closed):
            return self.largest_timestamp_of(self.closed[n])
        return self.active.largest_timestamp

    def largest_timestamp_of(self, segment: Segment) -> int:
        """Largest timestamp of a closed segment (ms)."""
        return largest_timestamp(self.folder, segment)

    def first_timestamp_of(self, segment: Segment) -> int:
        """Largest timestamp of the first batch of a closed segment (ms), -1 when it is empty.
        Raises OSError."""
        if segment.first_timestamp is None:
            path = files.path(self.folder, segment.base_offset, files.LOG)
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                segment.first_timestamp = first_timestamp(fd, segment.base_offset, segment.size)
            finally:
                os.close(fd)
        return segment.first_timestamp

    def shapes(self) -> list[tuple[int, int]]:
        """(base offset, bytes) of each segment, oldest first."""
        return list(zip(self.base_offsets, self.sizes, strict=True))

    def configure(self, config: TopicConfig) -> None:
        """New settings, from the next append or retention run on."""
        self.config = config
        self.active.configure(config)

    # --- growing -------------------------------------------------------------------------------------------

    def load(self, closed: list[Segment], deleted: Iterable[str], recovery_point: int, now_ms: int) -> None:
        """Take over the loaded segments; the active segment's row is already set. deleted: renamed
        files to remove. recovery_point: only what is below it was synced by an earlier process."""
        self.closed = closed
        self._closed_bytes = sum(segment.size for segment in closed)
        for one, end in zip(closed, self.base_offsets[1:], strict=True):
            if end > recovery_point:
                self.unsynced.add(one.base_offset, None)
        self.unsynced.names = True
        self.delete_later(deleted, now_ms)
        self.start_segment(now_ms)

    def roll(self, now_ms: int, snapshot: Callable[[int], object], at: int = 0) -> None:
        """Close the active segment and begin a new one at the log's end, or at a later offset, the
        next batch's. An empty active segment that begins there stays, and its age starts again.
        snapshot: called with the new base offset, to write the producers' state there."""
        base = max(self.active.next_offset, at)
        if self.active.position > 0 or base > self.active.base_offset:
            fds, state = self.active.files, self.active.finish()
            seal(files.path(self.folder, state.base_offset, files.TXN_INDEX))
            crash_point("roll: old segment finished")
            following = open_files(self.folder, base)
            crash_point("roll: new files created")
            try:
                snapshot(base)
            except OSError:  # the segment stays active
                following.close()
                raise
            crash_point("roll: snapshot written")
            self.closed.append(Segment(state.base_offset, state.position, now_ms, state.max_timestamp))
            self._closed_bytes += state.position
            self.unsynced.add(state.base_offset, fds)
            self.active.point(_empty(base), following)
        self.start_segment(now_ms)

    def start_segment(self, now_ms: int) -> None:
        """Begin the age and the limits of the active segment."""
        self.active.start(self.config, self._closed_bytes, now_ms)
        self.active.grow_until(now_ms + SLOW_ROLL_MS if self._are_too_many else 0)

    @property
    def _are_too_many(self) -> bool:
        return len(self.closed) >= MANY_SEGMENTS or self.unsynced.count >= MANY_UNSYNCED

    def fewer(self) -> None:
        """Segments have been synced or deleted: small ones may be rolled again."""
        if not self._are_too_many:
            self.active.grow_until(0)

    # --- shrinking -----------------------------------------------------------------------------------------

    def delete_later(self, paths: Iterable[str], now_ms: int) -> None:
        """Remove renamed files after file.delete.delay.ms."""
        self._deletions.add(paths, now_ms, self.config.file_delete_delay_ms)

    def _mark_deleted(self, bases: Iterable[int], now_ms: int) -> None:
        self.delete_later([path for base in bases for path in mark_deleted(self.folder, base)], now_ms)

    def delete_oldest(self, gone: Sequence[Segment], now_ms: int) -> None:
        """Rename the files of segments that `take_oldest` has taken."""
        self.unsynced.drop(below=self.first_base)
        self._mark_deleted((segment.base_offset for segment in gone), now_ms)
        self.active.set_other_bytes(self._closed_bytes)
        self.fewer()

    def take_oldest(self, count: int) -> list[Segment]:
        """Take closed segments out of the list; their files are not touched."""
        gone, self.closed = self.closed[:count], self.closed[count:]
        self._closed_bytes -= sum(segment.size for segment in gone)
        return gone

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove every batch that holds or follows an offset (LocalLog.truncateTo). Appends stay
        stopped."""
        self.active.stop_appends()
        self.active.count_cut()
        bases = self.base_offsets
        kept = bisect_right(bases, offset) - 1  # number of the segment that becomes active
        self._close_active()
        self.unsynced.drop(above=bases[kept] - 1 if kept >= 0 else -1)
        self._mark_deleted(reversed(bases[kept + 1 :]), now_ms)  # a crash in between leaves no gap
        self.unsynced.names = True  # deleted segments must not be back beside new records of their offsets
        self.closed = self.closed[: max(kept, 0)]
        self._closed_bytes = sum(segment.size for segment in self.closed)
        crash_point("truncate: segments deleted")
        if kept < 0:
            fds, state = open_files(self.folder, offset), _empty(offset)
        else:
            fds = open_files(self.folder, bases[kept])
            state = self._cut(fds, bases[kept], offset)
        self.active.point(state, fds)
        self.start_segment(now_ms)
        self.lowest_cut = min(self.lowest_cut, offset)
        self.cuts += 1

    def truncate_fully(self, offset: int, now_ms: int) -> None:
        """Remove everything; the log continues empty at an offset
        (LocalLog.truncateFullyAndStartAt). Appends stay stopped."""
        self.active.stop_appends()
        self.active.count_cut()  # a sync in progress may not have the names of the new files
        bases = self.base_offsets
        self._close_active()
        self.unsynced.drop()
        self._mark_deleted(bases, now_ms)
        self.unsynced.names = True
        self.closed, self._closed_bytes = [], 0
        self.active.point(_empty(offset), open_files(self.folder, offset))
        self.start_segment(now_ms)

    def _close_active(self) -> None:
        """Count its files as unsynced files of a closed segment, until they are synced or
        deleted."""
        base, fds = self.active.base_offset, self.active.files
        self.active.take_files()
        self.unsynced.add(base, fds)

    def _cut(self, fds: SegmentFds, base: int, offset: int) -> ActiveState:
        """Cut a segment before the batch that holds an offset."""
        size = os.fstat(fds.log).st_size
        place = FoundPlace.row()
        if search.locate(fds.log, -1, 0, base, offset, 0, size, place) == Located.FOUND:
            size = int(place[FoundPlace.POSITION])
        os.ftruncate(fds.log, size)
        crash_point("truncate: cut")
        segment.truncate_after(fds.index, fds.time_index, offset - base)
        transaction_index.truncate_index(self.folder, base, offset)
        state = resume(fds, base, size)
        if state is None:
            scan = Scan(fds.log, size, base, crc_from=None)
            state = rebuild_indexes(fds, scan, base, self.config)
        state.next_offset = offset
        return state

    def replace(
        self, found: Sequence[Segment], request: SwapSegments, deleted: Sequence[str], now_ms: int
    ) -> None:
        """List a cleaned segment in place of its originals, whose files were renamed."""
        new = Segment(found[0].base_offset, request.size, request.modified_ms, request.max_timestamp)
        at = self.closed.index(found[0])
        self.closed[at : at + len(found)] = [new]
        self._closed_bytes += new.size - sum(segment.size for segment in found)
        self.delete_later(deleted, now_ms)
        self.active.set_other_bytes(self._closed_bytes)

    def listed(self, segments: Iterable[tuple[int, int, int]]) -> list[Segment] | None:
        """The closed segments with these (base offset, bytes, inode); None if the list has
        changed."""
        expected = [(base, size) for base, size, _ in segments]
        first, last = expected[0][0], expected[-1][0]
        found = [segment for segment in self.closed if first <= segment.base_offset <= last]
        return found if [(segment.base_offset, segment.size) for segment in found] == expected else None

    # --- the end -------------------------------------------------------------------------------------------

    def finish(self) -> ActiveState:
        """Finish the active segment, so that it is loaded again as it is."""
        state = self.active.finish()
        seal(files.path(self.folder, state.base_offset, files.TXN_INDEX))
        return state

    def close(self) -> None:
        """Close all files without syncing."""
        if (fds := self.active.close()) is not None:
            fds.close()
        self.unsynced.drop()
        self.active.set_unsynced(rolled=False, names=True)

    def mark_folder_deleted(self, topic: str, partition: int) -> str:
        """Rename the folder for removal; its new path. Raises OSError."""
        name = files.dated_folder_name(topic, partition, uuid.uuid4().hex, files.DELETE_FOLDER)
        folder = Path(self.folder)
        return str(folder.rename(folder.with_name(name)))

    def relocate(self, folder: str, reserve_max_bytes: int) -> None:
        """Continue in a folder that holds the same files, all of them and their names on disk.
        Raises OSError."""
        self.folder = folder
        self.active.relocate(folder, reserve_max_bytes)
        self.unsynced.names = False


def _base_of(one: Segment) -> int:
    return one.base_offset


def _empty(base: int) -> ActiveState:
    """The state of an empty segment that begins at an offset."""
    return ActiveState(base, 0, base, max_timestamp_offset=base)
