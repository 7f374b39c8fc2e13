"""The bytes that the disk gave for fetches, by group.

A Fetch request does not name its group; committed offsets do. So the bytes of each partition are
divided among the groups whose commits pass records that were not in the page cache.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from msgspec import Struct, field

from kbroker.http.directory import Directory
from kbroker.http.partition_rows import partition_counters
from kbroker.ipc.layout import Counter
from kbroker.ipc.shared import Shared

GIVEN_S = 3600.0
"""A consumer commits later than it fetches. After this time bytes count for no group."""
MERGED_S = 60.0
CLAIM_S = 10.0
"""A process counts its bytes up to a second after it has sent them, which may be after the commit:
so the next refresh, too, serves a claim."""

Partition = tuple[str, int]
"""Topic and index."""


class Given(Struct):
    """Bytes from the disk that no group has passed yet. at_s: of the first of them."""

    at_s: float
    size: int


class Claim(Struct):
    """Bytes that a group has passed, which were only on the disk, beyond those that it got."""

    at_s: float
    size: int


class Account(Struct):
    """A partition's bytes, the oldest first, and claims by group."""

    given: deque[Given] = field(default_factory=deque)
    claims: dict[str, Claim] = field(default_factory=dict)

    def add(self, size: int, now_s: float) -> None:
        """Add bytes that the disk gave."""
        if self.given and now_s - self.given[-1].at_s < MERGED_S:
            self.given[-1].size += size
        else:
            self.given.append(Given(now_s, size))

    def take(self, size: int) -> None:
        """Remove bytes that groups get, the oldest first."""
        while size > 0:
            part = self.given[0]
            taken = min(size, part.size)
            part.size -= taken
            size -= taken
            if not part.size:
                self.given.popleft()

    def settle(self, now_s: float) -> dict[str, int]:
        """The share of each group: in proportion to its claim, and at most that."""
        while self.given and now_s - self.given[0].at_s > GIVEN_S:
            self.given.popleft()
        self.claims = {
            group: claim
            for group, claim in self.claims.items()
            if claim.size and now_s - claim.at_s <= CLAIM_S
        }
        claimed = [claim.size for claim in self.claims.values()]
        size = min(sum(claimed), sum(part.size for part in self.given))
        if not size:
            return {}
        self.take(size)
        shares = dict(zip(self.claims, divided(size, claimed), strict=True))
        for group, share in shares.items():
            self.claims[group].size -= share
        return shares


class ColdShares:
    """Runs in: http, in its sampling thread; scrapes read `totals`. Owner: the progress of
    groups."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._counted: dict[Partition, int] | None = None
        self._accounts: dict[Partition, Account] = {}
        self._expected: set[str] = set()
        self.totals: Mapping[str, int] = {}
        """Bytes by group, of those that have had records ahead which were not in the page cache."""

    def pause(self) -> None:
        """Stop counting, because no client scrapes: bytes read from the disk count for no group
        until the next `note`."""
        self._counted = None
        self._accounts.clear()

    def note(self, directory: Directory, now_s: float) -> None:
        """Add the bytes read from the disk since the last call; the first call only reads the
        counters."""
        counts = partition_counters(self._shared, directory)[:, Counter.COLD_BYTES_OUT]
        counted: dict[Partition, int] = {}
        for row in np.flatnonzero(counts > 0).tolist():
            topic = directory.topics[directory.topic_numbers[row]].name
            counted[topic, directory.partitions[row].index] = int(counts[row])
        before, self._counted = self._counted, counted
        for partition, count in counted.items() if before is not None else ():
            known = before.get(partition, 0) if before is not None else 0
            grown = count - known if count >= known else count  # a topic was made again
            if grown:
                self._accounts.setdefault(partition, Account()).add(grown, now_s)

    def expect(self, group: str) -> None:
        """The disk will give bytes for a group: its counter begins at 0, so that the first ones are
        an increase."""
        self._expected.add(group)

    def claim(self, group: str, topic: str, partition: int, size: int, now_s: float) -> None:
        """A group has passed so many bytes of a partition that were not in the page cache."""
        if size > 0:
            claims = self._accounts.setdefault((topic, partition), Account()).claims
            claim = claims.setdefault(group, Claim(now_s, 0))
            claim.at_s, claim.size = now_s, claim.size + size

    def settle(self, groups: Collection[str], now_s: float) -> None:
        """Give the bytes to the groups that claim them. groups: those that exist; others are
        forgotten."""
        totals = {**dict.fromkeys(sorted(self._expected), 0), **self.totals}
        totals = {group: total for group, total in totals.items() if group in groups}
        self._expected.clear()
        for partition, account in list(self._accounts.items()):
            for group, share in account.settle(now_s).items():
                totals[group] = totals.get(group, 0) + share
            if not account.given and not account.claims:
                del self._accounts[partition]
        self.totals = totals


def divided(size: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of a size, in proportion to the weights."""
    total = sum(weights)
    return [end - begin for begin, end in pairwise([0, *(size * at // total for at in accumulate(weights))])]
