"""The point in time of a backup: consistent high watermarks of all partitions, from the running
broker.

Committed offsets are read before the ends of the logs that they refer to, so they never point
beyond these ends. The end of a transaction is written to `__transaction_state` before any
partition, and completed there after all of them. If no transaction ended between the reads, each
transaction is restored in all of its partitions or in none: the coordinator of the restored broker
completes the ones that had begun to end.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.partitions import Partition, earliest, latest
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE

ATTEMPTS = 500


@dataclass(frozen=True, slots=True)
class Cut:
    """ends: high watermarks at time_ms. starts: log start offsets shortly before."""

    time_ms: int
    starts: dict[Partition, int]
    ends: dict[Partition, int]


def take_cut(broker: Connection) -> Cut:
    """Raises CommandFailed when transactions end without a pause."""
    admin = broker.admin()
    topics = admin.list_topics(timeout=broker.timeout_s).topics
    partitions = [(name, number) for name in sorted(topics) for number in sorted(topics[name].partitions)]

    def of(*names: str) -> Sequence[Partition]:
        return [one for one in partitions if one[0] in names]

    offsets, transactions = of(CONSUMER_OFFSETS), of(TRANSACTION_STATE)
    others = [one for one in partitions if one not in {*offsets, *transactions}]
    starts = earliest(broker, admin, partitions)
    for _ in range(ATTEMPTS):
        before = latest(broker, admin, transactions)
        ends = latest(broker, admin, offsets)
        ends |= latest(broker, admin, others)
        time_ms = time.time_ns() // 1_000_000
        if latest(broker, admin, transactions) == before:
            return Cut(time_ms, starts, ends | before)
        time.sleep(0.001)
    raise CommandFailed(
        f"transactions changed during each of {ATTEMPTS} attempts to find a common point in time"
    )
