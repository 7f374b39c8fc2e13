"""Finds the copies that lag and those that have caught up, only from the slots' words (Kafka's
Replica.isCaughtUp)."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.ipc.layout import Slot, SlotState

Pairs = list[tuple[Partition, Replica]]
CopyState = tuple[int, bool, bool, bool, bool]
"""A copy compared with its leader: its log end; whether it follows (online, in the leader's epoch);
whether it has the leader's records of the last check; whether it has all of them; whether it has
those that an in-sync replica must have."""
NO_END = (1 << 63) - 1


class Lag:
    """Runs in: control. Owner: Replication. words: shared.slots.

    A copy has caught up when its log reaches what its leader's was at the last check, under the
    leader's epoch. It may join the in-sync set when it has all below the high watermark and all
    that its leader began with: a new leader's high watermark may be below what was acknowledged
    before (Kafka's Partition.isFollowerInSync). It must also have copied since it was out of sync,
    or lack nothing: below min.insync.replicas the high watermark does not advance, and a copy that
    hangs has all below it. In Kafka it joins by a fetch, which a copy that hangs does not send.
    """

    def __init__(self, words: NDArray[np.int64], clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._words = words
        self._clock_ns = clock_ns
        self._ends: dict[int, int] = {}  # leaders' log ends at the last check, by slot
        self._left: dict[int, int] = {}  # where copies out of sync began to catch up, by slot
        self._checked_ns = clock_ns()

    def find(self, partitions: Sequence[Partition], max_lag_ns: int) -> tuple[Pairs, Pairs]:
        """(in-sync replicas that lag for longer than max_lag_ns, others that have caught up)."""
        pairs = [(p, r) for p in partitions for r in p.replicas if r is not p.leader]
        states = self._copy_states(pairs)
        now_ns = self._clock_ns()
        late, joining = [], []
        left: dict[int, int] = {}
        for (partition, replica), state in zip(pairs, states, strict=True):
            end, follows, has_caught_up, is_level, may_join = state
            if follows and is_level:
                replica.caught_up_ns = now_ns
            elif (follows and has_caught_up) or not replica.caught_up_ns:  # or its first check
                replica.caught_up_ns = self._checked_ns
            if replica.in_sync:
                if now_ns - replica.caught_up_ns > max_lag_ns:
                    late.append((partition, replica))
                continue
            left[replica.slot] = min(end, self._left.get(replica.slot, end))
            if follows and may_join and (is_level or end > left[replica.slot]):
                joining.append((partition, replica))
        self._checked_ns = now_ns
        self._left = left
        self._ends = {p.slot: int(self._words[p.slot, Slot.LOG_END]) for p in partitions}
        return late, joining

    def _copy_states(self, pairs: Pairs) -> Iterator[CopyState]:
        """The state of each copy; computed on columns, because there may be many."""
        words = self._words
        leaders = np.array([p.slot for p, _ in pairs], np.int64)
        copies = np.array([r.slot for _, r in pairs], np.int64)
        before = np.array([self._ends.get(slot, NO_END) for slot in leaders.tolist()], np.int64)
        same_epoch = words[copies, Slot.LEADER_EPOCH] == words[leaders, Slot.LEADER_EPOCH]
        online = words[copies, Slot.STATE] == SlotState.ONLINE
        leader_ends = words[leaders, Slot.LOG_END]
        ends = words[copies, Slot.LOG_END]
        limits = np.maximum(words[leaders, Slot.HIGH_WATERMARK], words[leaders, Slot.EPOCH_START])
        columns = (ends, same_epoch & online, ends >= before, ends >= leader_ends, ends >= limits)
        return zip(*(column.tolist() for column in columns), strict=True)
