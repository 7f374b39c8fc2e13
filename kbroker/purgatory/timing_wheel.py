"""A hierarchical timing wheel: add and cancel in O(1), expire in order of time. The owner passes
the time.

Level n has 64 buckets of 64**n ms. An entry is on the level of the highest base-64 digit in which
its expiry differs from the wheel's time. So all buckets in use are in the future, the first used
bucket of the lowest level is the next to expire, and an entry moves down at most once per level.
(Kafka's TimingWheel instead rounds to the level's tick and drives the buckets by a DelayQueue; here
the loop asks `next_expiry_ms` for its timeout.)
"""

from itertools import islice
from typing import Final

_BITS: Final = 6
_SLOTS: Final = 1 << _BITS
_MASK: Final = _SLOTS - 1
_ALWAYS_DUE: Final = 1 << 62
_ALL: Final = 1 << 62


class TimerEntry:
    """An entry that expires at `expiry_ms`; in at most one wheel at a time.

    Subclasses define what happens then.
    """

    __slots__ = ("_bucket", "expiry_ms")

    def __init__(self, expiry_ms: int) -> None:
        self.expiry_ms = expiry_ms
        self._bucket: dict[TimerEntry, None] | None = None


class TimingWheel:
    """Entries by expiry. Runs in: network, io, control; owned by one loop, which passes the time.

    Not thread-safe.
    """

    __slots__ = ("_buckets", "_count", "_now_ms", "_partly_moved", "_used")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._count = 0
        # Per level: the buckets (dicts as ordered sets) and a bit per bucket that may hold an
        # entry.
        self._buckets: list[list[dict[TimerEntry, None]]] = [[{} for _ in range(_SLOTS)]]
        self._used = [0]
        self._partly_moved = 0  # the level whose first bucket `advance` has not emptied yet; 0: none

    def __len__(self) -> int:
        return self._count

    @property
    def now_ms(self) -> int:
        """The time of the last `advance`."""
        return self._now_ms

    def add(self, entry: TimerEntry) -> None:
        """Schedule `entry` at its expiry_ms; an entry in the past expires with the next `advance`.

        It must not be scheduled.
        """
        assert entry._bucket is None, "an entry is in one wheel, once"
        self._count += 1
        self._place(entry)

    def cancel(self, entry: TimerEntry) -> bool:
        """Remove `entry`; returns False if it was not scheduled."""
        bucket = entry._bucket
        if bucket is None:
            return False
        del bucket[entry]
        entry._bucket = None
        self._count -= 1
        return True

    def reschedule(self, entry: TimerEntry, expiry_ms: int) -> None:
        """Move `entry` to another time, or add it."""
        self.cancel(entry)
        entry.expiry_ms = expiry_ms
        self.add(entry)

    def next_expiry_ms(self) -> int | None:
        """A time before which no entry expires; None without entries. It is exact for entries due
        within 64 ms, else up to one bucket early: `advance` then refines it.
        """
        level = self._first_level()
        return None if level is None else self._start(level)

    def advance(self, now_ms: int, max_moved: int = _ALL) -> list[TimerEntry]:
        """Set the time; the entries with expiry_ms <= now_ms, earliest first, no longer scheduled.

        Never goes back. max_moved: maximum number of moved entries; if more must be moved, the time
        stops before them, and the next call continues.
        """
        expired: list[TimerEntry] = []
        while max_moved > 0 and (level := self._first_level()) is not None:
            start = self._start(level)
            if start > now_ms:
                break
            self._now_ms = max(self._now_ms, start)
            entries = self._take(level, max_moved)
            max_moved -= len(entries)
            if level == 0:
                for entry in entries:
                    entry._bucket = None
                expired += entries
            else:
                for entry in entries:
                    self._place(entry)
        if max_moved > 0:
            self._now_ms = max(self._now_ms, now_ms)
        self._count -= len(expired)
        return expired

    def _take(self, level: int, max_moved: int) -> list[TimerEntry]:
        """Remove and return the entries of the first bucket in use of a level."""
        bits = self._used[level]
        lowest = bits & -bits
        bucket = self._buckets[level][lowest.bit_length() - 1]
        if len(bucket) > max_moved:
            some = list(islice(bucket, max_moved))
            for entry in some:
                del bucket[entry]
            self._partly_moved = level
            return some
        self._used[level] = bits ^ lowest
        self._buckets[level][lowest.bit_length() - 1] = {}
        return list(bucket)

    def _place(self, entry: TimerEntry) -> None:
        now_ms = self._now_ms
        expiry_ms = entry.expiry_ms
        if expiry_ms <= now_ms:
            expiry_ms = now_ms
        elif expiry_ms > _ALWAYS_DUE:
            expiry_ms = _ALWAYS_DUE
        level = ((expiry_ms ^ now_ms) | _MASK).bit_length() - 1
        level //= _BITS
        while level >= len(self._used):
            self._buckets.append([{} for _ in range(_SLOTS)])
            self._used.append(0)
        slot = (expiry_ms >> level * _BITS) & _MASK
        bucket = self._buckets[level][slot]
        bucket[entry] = None
        entry._bucket = bucket
        self._used[level] |= 1 << slot

    def _first_level(self) -> int | None:
        """The level whose first bucket is the next to come due: the lowest one with an entry, but
        for a bucket that is moved in parts, whose entries may expire before those moved already.
        """
        if not self._count:
            return None
        level = self._partly_moved
        if level:
            if self._is_used(level) and self._start(level) <= self._now_ms:
                return level
            self._partly_moved = 0
        return next((level for level in range(len(self._used)) if self._is_used(level)), None)

    def _is_used(self, level: int) -> bool:
        """Whether a level has an entry. Bits of buckets that cancellation emptied are cleared up to
        the first one in use."""
        bits = self._used[level]
        buckets = self._buckets[level]
        while bits and not buckets[(bits & -bits).bit_length() - 1]:
            bits &= bits - 1
        self._used[level] = bits
        return bits != 0

    def _start(self, level: int) -> int:
        """Start time of the first bucket in use of `level`."""
        bits = self._used[level]
        slot = (bits & -bits).bit_length() - 1
        above = (level + 1) * _BITS
        return (self._now_ms >> above << above) + (slot << level * _BITS)
