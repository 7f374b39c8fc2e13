"""The point in time of a backup: consistent high watermarks of all partitions, from the running
broker.

Committed offsets and the states of share groups are read before the ends of the logs that they
refer to, so they never point beyond these ends; schemas are read after the records that name them.
The end of a transaction is written to `__transaction_state` before any partition, and completed
there after all of them. If no transaction ended between the reads, each transaction is restored in
all of its partitions or in none: the coordinator of the restored broker completes the ones that had
begun to end.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.partitions import Partition, earliest, latest
from kbroker.config.topic import SCHEMAS
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ATTEMPTS = 500
OTHERS = ""
ORDER = (CONSUMER_OFFSETS, SHARE_GROUP_STATE, OTHERS, SCHEMAS)
"""Topics in the order in which their ends are read. A group knows partitions whose state exists."""


class Cut(Struct, frozen=True):
    """ends: high watermarks at time_ms. starts: log start offsets shortly before. cluster_id: of
    the broker that answered."""

    time_ms: int
    starts: dict[Partition, int]
    ends: dict[Partition, int]
    cluster_id: str


def take_cut(broker: Connection) -> Cut:
    """Raises CommandFailed when transactions end, or topics are created, without a pause."""
    admin = broker.admin()
    cluster_id, partitions = _partitions(broker)
    starts: dict[Partition, int] = {}
    for _ in range(ATTEMPTS):
        failure = None
        try:
            starts = starts or earliest(broker, admin, partitions)
            found = _ends(broker, admin, partitions)
        except CommandFailed as failed:  # of a topic that was deleted meanwhile, or of the broker
            failure, found = failed, None
        if found is None and failure is None:
            time.sleep(0.001)
            continue
        _, now = _partitions(broker)
        if failure is not None and now == partitions:
            raise failure
        if found is not None and set(now) <= set(partitions):  # a new topic may have records before time_ms
            return Cut(found[0], starts, found[1], cluster_id)
        partitions, starts = now, {}
    raise CommandFailed(
        f"transactions or topics changed during each of {ATTEMPTS} attempts to find a common point in time"
    )


def _partitions(broker: Connection) -> tuple[str, list[Partition]]:
    """The cluster id, and all partitions that the user may describe."""
    metadata = broker.admin().list_topics(timeout=broker.timeout_s)
    topics = metadata.topics
    names = [(name, number) for name in sorted(topics) for number in sorted(topics[name].partitions)]
    return metadata.cluster_id or "", names


def _ends(
    broker: Connection, admin: "AdminClient", partitions: Sequence[Partition]
) -> tuple[int, dict[Partition, int]] | None:
    """(time_ms, high watermarks); None if a transaction ended meanwhile. Raises CommandFailed."""
    parts: dict[str, list[Partition]] = {}
    for one in partitions:
        parts.setdefault(one[0] if one[0] in (TRANSACTION_STATE, *ORDER) else OTHERS, []).append(one)
    transactions = parts.get(TRANSACTION_STATE, [])
    before = latest(broker, admin, transactions)
    ends: dict[Partition, int] = {}
    for topic in ORDER:
        if topic in parts:
            ends |= latest(broker, admin, parts[topic])
    time_ms = time.time_ns() // 1_000_000
    if latest(broker, admin, transactions) != before:
        return None
    return time_ms, ends | before
