"""Throttling of replication (KIP-73): decides which copies of an IO worker must wait.

As in Kafka's ReplicationQuotaManager only replicas that are out of sync wait, and only those that
the topic's leader. or follower.replication.throttled.replicas name; a rate holds for all replicas
of a site together.
"""

import time
from collections.abc import Callable

from kbroker.config.topic import TopicConfig
from kbroker.ipc.replication_rates import FOLLOWER, LEADER, ReplicationRates
from kbroker.ipc.shared import Shared

ALL = "*"
MAX_RATE = (1 << 63) - 1


class Debt:
    """The excess of a growing total over a rate. Unused rate is not saved up."""

    def __init__(self) -> None:
        self._paid = -1.0
        self._then_ns = 0

    def is_open(self, total: int, bytes_per_second: int, now_ns: int) -> bool:
        """Whether more was copied than the rate allows."""
        if self._paid < 0:
            self._paid = total
        else:
            self._paid = min(total, self._paid + bytes_per_second * (now_ns - self._then_ns) / 1e9)
        self._then_ns = now_ns
        return total > self._paid


class Throttle:
    """Runs in: io. Owner: the worker's Following. first_node: node id of the first site; sites: how
    many there are."""

    def __init__(
        self,
        shared: Shared,
        worker: int,
        first_node: int,
        sites: int,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._in_sync = shared.in_sync
        self._rates = ReplicationRates(shared)
        self._worker = worker
        self._first_node = first_node
        self._sites = sites
        self._clock_ns = clock_ns
        self._debts = {(site, side): Debt() for site in range(sites) for side in (LEADER, FOLLOWER)}

    def limits(self, config: TopicConfig, index: int, leader_worker: int) -> list[tuple[int, int]]:
        """(site, side) of the limits that apply to a replica of this worker, in sync or not."""
        found = []
        for side, replicas, worker in (
            (LEADER, config.leader_replication_throttled_replicas, leader_worker),
            (FOLLOWER, config.follower_replication_throttled_replicas, self._worker),
        ):
            site = worker % self._sites
            if replicas and (ALL in replicas or f"{index}:{self._first_node + site}" in replicas):
                found.append((site, side))
        return found

    def holds(self, slot: int, limits: list[tuple[int, int]]) -> bool:
        """Whether copying to the slot must wait now."""
        if self._in_sync[slot]:
            return False
        held = False
        for site, side in limits:
            rate = self._rates.rate(site, side)
            if rate is not None and rate < MAX_RATE:
                held |= self._debts[site, side].is_open(self._rates.total(site, side), rate, self._clock_ns())
        return held

    def copied(self, limits: list[tuple[int, int]], count: int) -> None:
        """Bytes have been copied under these limits."""
        for site, side in limits:
            self._rates.add(self._worker, site, side, count)
