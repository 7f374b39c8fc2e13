"""The cached decisions of the commit cache: which requests may commit without the coordinator; and
its groups.

Runs in: control. Owner: the CommitCache.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbroker.control.groups.commit_cache.layout import CachedDecision, CacheTables
from kbroker.control.groups.commit_cache.request_kernel import enter_decision, prefix_bytes
from kbroker.ipc.cached_answers import word_of
from kbroker.kernels.codes import ApiKey

Words = NDArray[np.int64]

INITIAL_DECISIONS: Final = 256
MAX_DECISIONS: Final = 1 << 16
INDEX_SHARE: Final = 2
MAX_ANSWER_BYTES: Final = 64
MAX_BYTES: Final = 1024
"""Beginning of a request, its answer and its peer together. The decisions of clients with longer
ids would take gigabytes; their requests are answered without a decision."""


class Renewal(NamedTuple):
    """A permission for the fast path, and the session that each of its requests renews. timer:
    empty if they renew none."""

    timer: str
    timeout_ms: int


class CachedDecisions:
    """words, address: the context of the cache's kernels. postpone(timer, due_ms): extends a
    session.

    A commit extends its member's session only before its timer counts: before timers fire
    (`settle_touched`), and before another operation of the group.
    """

    def __init__(self, words: Words, address: int, postpone: Callable[[str, int], None]) -> None:
        self._words = words
        self._address = address
        self._postpone = postpone
        self._of_group: dict[str, list[int]] = {}
        self._renewal: dict[int, Renewal] = {}
        self._contents: dict[int, NDArray[np.uint8]] = {}
        self._numbers: dict[tuple[int, bytes], int] = {}
        self._keys: dict[int, tuple[int, bytes]] = {}
        self._free: list[int] = []
        self._groups: dict[str, int] = {}
        self._free_groups: list[int] = []
        self._in_flight: Words = np.zeros(0, np.int64)
        self._versions: Words = np.zeros(0, np.int64)
        self._table: Words = CachedDecision.table(0)
        self._index: Words = np.zeros(0, np.int64)
        self._touched: Words = np.zeros(0, np.int64)
        self._indexed = 0

    @property
    def count(self) -> int:
        """Valid decisions."""
        return len(self._keys)

    def enter(
        self, group_id: str, version: int, body: bytes, partition: int, renewal: Renewal, peer: bytes = b""
    ) -> None:
        """Allow requests of this version that begin as `body` does (of this peer, if given) to
        commit offsets of the group."""
        length = prefix_bytes(version, np.frombuffer(body, np.uint8).ctypes.data, len(body))
        if length >= 0:
            self._enter(
                group_id, ApiKey.OFFSET_COMMIT << 8 | version, body[:length], renewal, partition, peer=peer
            )

    def enter_heartbeat(
        self, group_id: str, kind: int, request: bytes, renewal: Renewal, answer: bytes, peer: bytes = b""
    ) -> None:
        """Answer this heartbeat (of this peer, if given) with this answer from now on; `answer`
        begins after the correlation id."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        if (kind, request) in self._numbers:  # of another client, whose request the machine has answered
            self.forget(group_id)
        self._enter(group_id, kind, request, renewal, 0, answer, peer)

    def _enter(
        self,
        group_id: str,
        kind: int,
        prefix: bytes,
        renewal: Renewal,
        partition: int,
        answer: bytes = b"",
        peer: bytes = b"",
    ) -> None:
        key = (kind, prefix)
        if key in self._numbers or len(prefix) + len(answer) + len(peer) > MAX_BYTES:
            return
        if (not self._free or self._indexed >= len(self._table)) and not self._make_room():
            return
        number = self._free.pop()
        content = np.frombuffer(prefix + answer + peer, np.uint8)
        row = self._table[number]
        row[:] = 0
        row[CachedDecision.KIND] = kind
        row[CachedDecision.PREFIX] = content.ctypes.data
        row[CachedDecision.PREFIX_BYTES] = len(prefix)
        row[CachedDecision.GROUP] = self._group(group_id)
        row[CachedDecision.PARTITION] = partition
        row[CachedDecision.ANSWER] = content.ctypes.data + len(prefix)
        row[CachedDecision.ANSWER_BYTES] = len(answer)
        row[CachedDecision.PEER] = content.ctypes.data + len(prefix) + len(answer)
        row[CachedDecision.PEER_BYTES] = len(peer)
        enter_decision(self._address, number)
        self._indexed += 1
        self._contents[number] = content
        self._renewal[number] = renewal
        self._numbers[key] = number
        self._keys[number] = key
        self._words[CacheTables.DECISION_COUNT] = len(self._keys)
        self._of_group.setdefault(group_id, []).append(number)

    def _group(self, group_id: str) -> int:
        number = self._groups.get(group_id)
        if number is None:
            if not self._free_groups:
                old = len(self._in_flight)
                grown: Words = np.zeros(max(INITIAL_DECISIONS, 2 * old), np.int64)
                grown[:old] = self._in_flight
                self._in_flight = grown
                self._words[CacheTables.IN_FLIGHT] = grown.ctypes.data
                self._versions = np.resize(self._versions, len(grown))
                self._words[CacheTables.GROUP_VERSIONS] = self._versions.ctypes.data
                self._free_groups += range(len(grown) - 1, old - 1, -1)
            number = self._groups[group_id] = self._free_groups.pop()
            self._versions[number] = word_of(group_id)
        return number

    def _make_room(self) -> bool:
        """Rebuild the index without invalid decisions; grow when more than half are valid."""
        self.settle_touched()
        count = len(self._table)
        if 2 * self.count >= count:
            count = max(INITIAL_DECISIONS, 2 * count)
            if count > MAX_DECISIONS:
                self.forget_all()
                count = MAX_DECISIONS
        table: Words = CachedDecision.table(count)
        table[: len(self._table)] = self._table
        self._table = table
        self._index = np.zeros(INDEX_SHARE * count, np.int64)
        self._touched = np.zeros(count, np.int64)
        words = self._words
        words[CacheTables.DECISIONS] = table.ctypes.data
        words[CacheTables.DECISION_INDEX] = self._index.ctypes.data
        words[CacheTables.DECISION_MASK] = len(self._index) - 1
        words[CacheTables.TOUCHED] = self._touched.ctypes.data
        for number in self._keys:
            enter_decision(self._address, number)
        self._indexed = len(self._keys)
        self._free = [number for number in range(count - 1, -1, -1) if number not in self._keys]
        return True

    # --- forgetting -----------------------------------------------------------------------------------

    def forget(self, group_id: str) -> None:
        """Invalidate the decisions about a group."""
        numbers = self._of_group.pop(group_id, None)
        if numbers is not None:
            self.settle_touched()
            for number in numbers:
                self._table[number, CachedDecision.LIVE] = 0
                del self._numbers[self._keys.pop(number)], self._renewal[number], self._contents[number]
                self._free.append(number)
            self._words[CacheTables.DECISION_COUNT] = len(self._keys)
        if group_id in self._groups and not self.in_flight(group_id):
            self._free_groups.append(self._groups.pop(group_id))

    def forget_all(self) -> None:
        """Invalidate all decisions."""
        for group_id in list(self._of_group):
            self.forget(group_id)

    def in_flight(self, group_id: str) -> bool:
        """Whether commits of the group are being written."""
        number = self._groups.get(group_id)
        return number is not None and bool(self._in_flight[number])

    def settle_touched(self) -> None:
        """Extend the sessions of the members that have committed since the last call."""
        count = int(self._words[CacheTables.TOUCHED_COUNT])
        self._words[CacheTables.TOUCHED_COUNT] = 0
        for number in self._touched[:count].tolist():
            touched_ms = int(self._table[number, CachedDecision.TOUCHED_MS])
            self._table[number, CachedDecision.TOUCHED_MS] = 0
            timer, timeout_ms = self._renewal[number]
            if timer:
                self._postpone(timer, touched_ms + timeout_ms)
