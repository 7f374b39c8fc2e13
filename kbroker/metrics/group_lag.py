"""The lag of consumer groups, as the command line, the console, /metrics and `kbroker top` count
it.

Apache Kafka's tools show no lag for a partition without a committed offset. A group that has never
committed would then have no lag, however many records wait for it, so such a partition counts from
the start of its log.
"""

from collections.abc import Collection, Iterable


def record_lag(committed: int | None, log_start: int, end: int) -> int:
    """Records of a partition after the committed offset, or after the log start if the group has
    committed none. end: high watermark."""
    return max(0, end - (log_start if committed is None or committed < 0 else committed))


def whole_topics(committed: Iterable[str], subscribed: Collection[str], members: int) -> frozenset[str]:
    """Topics of which all partitions count, with and without a committed offset: those that the
    members subscribe to; of a group without members those with committed offsets. Of other topics
    only the partitions with a committed offset count."""
    return frozenset(subscribed if members else committed)
