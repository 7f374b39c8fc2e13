"""The leader epochs of one partition and their start offsets: Kafka's LeaderEpochFileCache over its
checkpoint.
"""

import logging
from bisect import bisect_left, bisect_right

from kbroker.log.checkpoint import CorruptCheckpoint, read_leader_epochs, write_leader_epochs

log = logging.getLogger(__name__)

UNDEFINED = (-1, -1)


class LeaderEpochFileCache:
    """Entries (epoch, start offset), both rising. Runs in: io. Owner: the partition. Not
    thread-safe.

    Additions are written at once; removals are left to the next write, because loading a log
    repeats them.
    """

    def __init__(self, folder: str, entries: list[tuple[int, int]] | None = None) -> None:
        self.folder = folder
        self._entries: list[tuple[int, int]] = []
        self._on_disk: list[tuple[int, int]] | None = None  # entries of the file, where that is known
        for epoch, start in entries or []:
            self._add(epoch, start)

    @classmethod
    def load(cls, folder: str) -> "LeaderEpochFileCache":
        """The cache of a folder's checkpoint; a damaged checkpoint counts as empty (recovery fills
        the cache from batches)."""
        try:
            read = read_leader_epochs(folder)
            loaded = cls(folder, read)
            loaded._on_disk = read
            return loaded
        except (CorruptCheckpoint, ValueError) as error:
            log.warning("%s: the epochs are taken from the batches: %s", folder, error)
            return cls(folder)

    def take(self, other: "LeaderEpochFileCache") -> None:
        """Take over the entries of another cache of the same folder."""
        self._entries, self._on_disk = list(other._entries), other._on_disk

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch, -1 when there is none."""
        return self._entries[-1][0] if self._entries else -1

    def assign(self, epoch: int, start_offset: int, sync: bool = True) -> bool:
        """Note that an epoch begins at an offset. Returns True if the entry is new; with sync it is
        on disk then. Raises OSError: nothing is noted, so that the next try writes it.

        An entry that contradicts later ones removes them (they were never committed)."""
        before = list(self._entries)
        if not self._add(epoch, start_offset):
            return False
        try:
            self.write(sync)
        except OSError:
            self._entries = before
            raise
        return True

    def note(self, epoch: int, start_offset: int) -> None:
        """As assign, for recovery: an epoch that is not above the latest changes nothing, and
        nothing is written yet."""
        if epoch >= 0 and epoch > self.latest:
            self._add(epoch, start_offset)

    def write(self, sync: bool = True) -> None:
        """Write the checkpoint; without sync only if the file differs."""
        if sync or self._on_disk != self._entries:
            write_leader_epochs(self.folder, self._entries, sync)
            self._on_disk = list(self._entries)

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """OffsetForLeaderEpoch's answer: (epoch, end offset) of the largest known epoch <= the
        requested one. An epoch below all known ones, a negative one too, ends where the first of
        them starts."""
        if epoch == UNDEFINED[0] or not self._entries:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end
        following = bisect_right(self._entries, epoch, key=_epoch)
        if following == len(self._entries):
            return UNDEFINED
        end = self._entries[following][1]
        return (epoch if following == 0 else self._entries[following - 1][0]), end

    def at(self, offset: int) -> int:
        """The epoch of an offset, -1 when the offset is below all known epochs."""
        following = bisect_right(self._entries, offset, key=_start)
        return self._entries[following - 1][0] if following else -1

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove epochs that begin at or after the log's end; True when there were any."""
        kept = bisect_left(self._entries, end_offset, key=_start)
        removed = kept < len(self._entries)
        del self._entries[kept:]
        return removed

    def truncate_from_start(self, start_offset: int) -> None:
        """Set the start of the log start's epoch to the log start, and forget older epochs."""
        covered = bisect_right(self._entries, start_offset, key=_start)
        if covered:
            self._entries[:covered] = [(self._entries[covered - 1][0], start_offset)]

    def clear(self) -> None:
        """Forget everything, on disk too."""
        self._entries.clear()
        self.write()

    def _add(self, epoch: int, start_offset: int) -> bool:
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} from offset {start_offset}")
        if self._entries:
            latest, start = self._entries[-1]
            if latest == epoch and start_offset >= start:
                return False
        while self._entries and (self._entries[-1][0] >= epoch or self._entries[-1][1] >= start_offset):
            self._entries.pop()
        self._entries.append((epoch, start_offset))
        return True


def _epoch(entry: tuple[int, int]) -> int:
    return entry[0]


def _start(entry: tuple[int, int]) -> int:
    return entry[1]


def agreed_end(
    own: LeaderEpochFileCache,
    my_end: int,
    leader: LeaderEpochFileCache,
    leader_end: int,
    high_watermark: int,
) -> int:
    """The offset up to which the follower's log equals the leader's; the follower truncates the
    rest. high_watermark: of the follower; both logs are equal below it. It is used when no epoch is
    known. Rules: KIP-101, KIP-279 (AbstractFetcherThread.getOffsetTruncationState)."""
    requested, offset = own.latest, my_end
    while requested >= 0:
        epoch, end = leader.end_offset_for(requested, leader_end)
        if epoch < 0:
            return min(high_watermark, offset)
        known, known_end = own.end_offset_for(epoch, my_end)
        if known == epoch:
            return min(known_end, end, offset)
        if known < 0 or known >= requested:
            return min(high_watermark, offset)
        requested, offset = known, min(known_end, offset)
    return min(high_watermark, my_end)
