"""Durations and amounts of load: a full run and a short one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Duration and amount of load. Warm-up is never part of a figure."""

    warm_seconds: float
    seconds: float
    produced_bytes: int
    """No produce scenario writes more, so that write-back of one turn does not meet the next."""
    cached_bytes: int
    cold_bytes: int
    partitions: int
    """Number in the scenarios with many. Apache Kafka flushes several small files for each."""
    settle_seconds: float
    sync: bool
    jvm_warm_seconds: float = 0
    """A JVM does the same work for at least so long before its first measured turn, and longer
    while the figure still improves."""
    jvm_again_seconds: float = 0
    """Minimum warm-up for a scenario if another one of its kind has warmed up this JVM."""
    limit_seconds: float = 0.3
    """Seconds of a bare loop."""

    @property
    def many_partitions(self) -> int:
        """Number in the scenario with most of them."""
        return 10 * self.partitions


FULL = Size(
    1.5, 4, 2 << 30, 2 << 30, 3 << 30, 1000, settle_seconds=2, sync=True, jvm_warm_seconds=20,
    jvm_again_seconds=5, limit_seconds=1,
)  # fmt: skip
QUICK = Size(0.6, 1.0, 384 << 20, 192 << 20, 192 << 20, 200, settle_seconds=0.5, sync=False)
