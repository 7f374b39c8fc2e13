"""Bounds of histogram buckets, and quantiles from bucket counts. Pure."""

from collections.abc import Sequence

from kbroker.metrics import layout as ml


def upper_bound_ns(bucket: int) -> float:
    """Maximum time in the bucket; infinity for the last one."""
    if bucket >= ml.HISTOGRAM_BUCKETS - 1:
        return float("inf")
    shift = max(0, bucket // ml.SUB_BUCKETS - 1)
    units = (bucket - (shift << ml.SUB_BUCKET_BITS) + 1) << shift
    return units * ml.UNIT_DENOMINATOR / ml.UNIT_NUMERATOR


UPPER_NS = tuple(upper_bound_ns(bucket) for bucket in range(ml.HISTOGRAM_BUCKETS))

EXPORTED = tuple((1e-4 * 2**octave, UPPER_NS.index(100_000.0 * 2**octave) + 1) for octave in range(20))
"""(bound in seconds, number of buckets at or below it) of the exported buckets: 100 us * 2^k."""


def quantile_ns(counts: Sequence[int], quantile: float) -> float:
    """The quantile of the counted times, interpolated inside its bucket; NaN without times."""
    total = sum(counts)
    if total == 0:
        return float("nan")
    rank = quantile * total
    below = 0
    for bucket, count in enumerate(counts):
        if count and below + count >= rank:
            lower = UPPER_NS[bucket - 1] if bucket else 0.0
            upper = UPPER_NS[bucket]
            if upper == float("inf"):
                return lower
            return lower + (upper - lower) * max(0.0, rank - below) / count
        below += count
    return UPPER_NS[ml.HISTOGRAM_BUCKETS - 2]
