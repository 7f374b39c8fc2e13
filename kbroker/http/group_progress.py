"""The lag of groups in seconds and bytes, the time that they need to catch up, the time that their
next records stay in memory, and the bytes that the disk gave for them.

Each refresh reads the position and timestamp of committed offsets from the files of a bounded
number of partitions. Rates are those of the last minutes.
"""

import logging
import os
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from math import inf
from mmap import PAGESIZE
from operator import itemgetter

from msgspec import Struct, field

from kbroker.http.cold_shares import ColdShares
from kbroker.http.directory import Directory
from kbroker.http.group_lags import LogRanges
from kbroker.http.page_cache import PageCache
from kbroker.http.segment_bytes import SegmentBytes
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.messages import PartitionImage
from kbroker.ipc.shared import Shared
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.protocol import batch_layout as b
from kbroker.protocol.records import HEADER

log = logging.getLogger(__name__)

MAX_PARTITIONS = 500
MAX_READING_S = 2.0
"""Then the rest waits for the next refresh. A busy disk may need longer for all of them than the
http process may go without a heartbeat."""
MAX_UNCOMMITTED = 5000
"""Partitions without a committed offset, those with the largest lag. Once read, one is kept until
it is no longer among twice as many: it is not lost and read again as lags change."""
WINDOW_S = 300.0
SCRAPED_S = 120.0
"""Time without a scrape after which no logs are read."""
OPEN_FILES = 64

Key = tuple[str, str, int]
Lagging = tuple[Key, int, PartitionImage]
"""A key, the offset of its first uncommitted record, and the partition."""


class GroupLag(Struct, frozen=True):
    """seconds: since the first record that is not committed was written, None: unknown. cache_s:
    until the next records leave the page cache, None: unknown."""

    seconds: float | None
    size: int
    cache_s: float | None


class History(Struct):
    """(time, number) of the last minutes."""

    points: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, now_s: float, number: float) -> None:
        """Add a reading; drop those older than the window, except the newest of them."""
        self.points.append((now_s, number))
        while len(self.points) > 2 and self.points[1][0] <= now_s - WINDOW_S:
            self.points.popleft()

    def growth(self) -> float:
        """Growth per second; 0 with a single reading."""
        (first_s, first), (last_s, last) = self.points[0], self.points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


class GroupPosition(Struct):
    """A group's position in a partition. timestamp_ms: of the first uncommitted record; -1:
    unknown.

    lag_bytes: bytes from there to the end. cached: bytes of the log in the page cache; -1: unknown.
    evicted: a part of the log is not in the page cache. segment, position: of its batch. cold:
    bytes after it that were not in the page cache, when it or an earlier position of the group was
    read: by the commit a fetch has brought them there."""

    offset: int
    timestamp_ms: int
    lag_bytes: History
    segment: int
    position: int
    cold: int
    cached: int = -1
    evicted: bool = True


class GroupProgress:
    """Runs in: http; filled by its sampling thread, read by scrapes."""

    def __init__(
        self, shared: Shared, page_cache: PageCache, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared = shared
        self._page_cache = page_cache
        self._clock_s = clock_s
        self._positions: dict[Key, GroupPosition] = {}
        self._lags: dict[str, History] = {}
        self._last: Key | None = None
        self._open_files = OpenFiles(OPEN_FILES)
        self._cold = ColdShares(shared)
        self.scraped_s = -inf
        self.lagging_folders: frozenset[str] = frozenset()

    def refresh(self, directory: Directory, ask: Callable[[], Iterable[GroupSummary]]) -> None:
        """Read the state of the groups, if there are scrapes. Files that have been deleted are
        closed."""
        self._open_files.forget_deleted()
        now_s = self._clock_s()
        if now_s - self.scraped_s > SCRAPED_S:
            self.lagging_folders = frozenset()
            self._cold.pause()
            return
        images = {
            (topic.name, image.index): image for topic in directory.topics for image in topic.partitions
        }
        lagging: list[Lagging] = []
        lags: dict[str, History] = {}
        kept: set[Key] = set()
        ranges = LogRanges(self._shared, directory)
        groups = list(ask())
        self._cold.note(directory, now_s)  # after the offsets: most of what they pass is counted
        uncommitted = 0
        for group, topic, partition, offset in ranges.positions(groups, 2 * MAX_UNCOMMITTED):
            key = group.group_id, topic, partition
            uncommitted += offset is None
            if uncommitted > MAX_UNCOMMITTED and key not in self._positions:
                continue
            if ranges.lag(topic, partition, offset):
                kept.add(key)
                start = ranges.start(topic, partition) if offset is None else offset
                lagging.append((key, start, images[topic, partition]))
            elif (caught_up := self._positions.get(key)) is not None:
                self._cold.claim(*key, caught_up.cold, now_s)
        for group in groups:
            history = lags[group.group_id] = self._lags.get(group.group_id) or History()
            history.add(now_s, ranges.group_lag(group) or 0)
        self._lags = lags
        self.lagging_folders = frozenset(image.folder for _, _, image in lagging)
        positions = {key: position for key, position in self._positions.items() if key in kept}
        self._read(positions, lagging, now_s)
        self._positions = positions
        self._cold.settle(lags.keys(), now_s)

    def _read(self, positions: dict[Key, GroupPosition], lagging: Iterable[Lagging], now_s: float) -> None:
        """Read the next positions, and what their groups have passed since the last time."""
        began_s = self._clock_s()
        segments = SegmentBytes()
        for key, offset, image in self._next(lagging):
            position = self._position(key, positions.get(key), offset, image, segments, now_s)
            if position is not None:
                positions[key] = position
            self._last = key
            if self._clock_s() - began_s > MAX_READING_S:
                break

    def _next(self, lagging: Iterable[Lagging]) -> list[Lagging]:
        """The next MAX_PARTITIONS lagging partitions in order of keys, after the last one that was
        read. New ones, and those without lag, do not affect the turn of the others."""
        ordered = sorted(lagging, key=itemgetter(0))
        first = 0 if self._last is None else bisect_right(ordered, self._last, key=itemgetter(0))
        return (ordered[first:] + ordered[:first])[:MAX_PARTITIONS]

    def _position(
        self,
        key: Key,
        known: GroupPosition | None,
        offset: int,
        image: PartitionImage,
        segments: SegmentBytes,
        now_s: float,
    ) -> GroupPosition | None:
        reader = LogReader(image.folder, self._open_files)
        try:
            found = reader.locate(offset, *WHOLE_LOG)
            if found is None:
                return None
            log_file = self._open_files.get(image.folder, found.segment_base, files.LOG)
            header = os.pread(log_file.fd, b.HEADER_BYTES, found.position)
            bases = reader.base_offsets()
            ahead = segments.ahead(image.folder, bases, found.segment_base, found.position)
            passed = 0
            if known is not None:
                here = found.segment_base, found.position
                passed = segments.between(image.folder, bases, (known.segment, known.position), here)
        except (OSError, CorruptLog) as error:  # deleted by retention meanwhile, or its disk failed
            log.debug("%s from offset %d: %s", image.folder, offset, error)
            return None
        cold = ahead.cold
        if known is not None and passed >= 0:
            self._cold.claim(*key, min(passed, known.cold), now_s)
            cold = max(cold, min(known.cold - passed, ahead.size))
        if cold:
            self._cold.expect(key[0])
        history = known.lag_bytes if known is not None else History()
        history.add(now_s, ahead.size)
        cached = self._page_cache.cached_pages_of(image.folder)
        cached = -1 if cached < 0 else cached * PAGESIZE
        evicted = not self._page_cache.holds_all_of(image.folder)
        stamp = timestamp_of(header, offset)
        return GroupPosition(
            offset, stamp, history, found.segment_base, found.position, cold, cached, evicted
        )

    # --- what is shown ---------------------------------------------------------------------------------

    def lag_of(self, group: str, topic: str, partition: int) -> GroupLag | None:
        """The lag of a partition; None when it has not been read yet."""
        position = self._positions.get((group, topic, partition))
        if position is None:
            return None
        # a commit since the last refresh is newer than the timestamp: the lag shown is at most one
        # refresh too large
        seconds = max(0.0, time.time() - position.timestamp_ms / 1000) if position.timestamp_ms >= 0 else None
        size = position.lag_bytes.points[-1][1]
        return GroupLag(seconds, int(size), self._cache_s(position, size))

    @staticmethod
    def _cache_s(position: GroupPosition, size: float) -> float | None:
        if position.cached < 0:
            return None
        if not position.evicted:  # the cache grows with the log: there is no bound to reach yet
            return inf
        margin = position.cached - size
        growth = position.lag_bytes.growth()
        if margin <= 0:
            return 0.0
        return margin / growth if growth > 0 else inf

    def cold_bytes(self) -> Mapping[str, int]:
        """Bytes from the disk by group, of those that have had evicted records ahead; none if the
        kernel cannot report what is in the page cache."""
        return self._cold.totals if self._page_cache.works else {}

    def catch_up_s(self) -> Mapping[str, float]:
        """Seconds until a group has no lag, at the rate of the last minutes; infinite when the lag
        does not shrink."""
        found = {}
        for group, history in list(self._lags.items()):
            lag, growth = history.points[-1][1], history.growth()
            found[group] = 0.0 if lag <= 0 else lag / -growth if growth < 0 else inf
        return found


def timestamp_of(header: bytes, offset: int) -> int:
    """Timestamp of the record at an offset, interpolated between the base and maximum timestamp of
    its batch."""
    if len(header) < b.HEADER_BYTES:
        return -1
    batch = HEADER.unpack_from(header)
    base_offset, delta, first_ms, largest_ms = batch[0], batch[6], batch[7], batch[8]
    if delta <= 0 or first_ms < 0 or largest_ms < first_ms:
        return int(largest_ms)
    share = min(1.0, max(0.0, (offset - base_offset) / delta))
    return int(first_ms + (largest_ms - first_ms) * share)
