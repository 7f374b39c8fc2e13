"""Latency histograms in logarithmic buckets: exact to 2.2 %, from 1 µs to 18 minutes, merged by
adding.

A histogram is an int64 array of BUCKETS counts; bucket b holds times from edge(b) up to edge(b +
1).
"""

import numpy as np
import numpy.typing as npt

PER_OCTAVE = 32
OCTAVES = 30
LOWEST_NS = 1 << 10
BUCKETS = PER_OCTAVE * OCTAVES

Counts = npt.NDArray[np.int64]

EDGES_NS = LOWEST_NS * 2.0 ** (np.arange(BUCKETS + 1) / PER_OCTAVE)
MIDDLES_NS = np.sqrt(EDGES_NS[:-1] * EDGES_NS[1:])


def empty() -> Counts:
    return np.zeros(BUCKETS, np.int64)


def count(times_ns: npt.NDArray[np.int64]) -> Counts:
    """The histogram of some times; below 1 µs counts as 1 µs, above the range as the last
    bucket."""
    if len(times_ns) == 0:
        return empty()
    octaves = np.log2(np.maximum(times_ns, LOWEST_NS) / LOWEST_NS)
    buckets = np.minimum((octaves * PER_OCTAVE).astype(np.int64), BUCKETS - 1)
    return np.bincount(buckets, minlength=BUCKETS).astype(np.int64)


def percentile_ns(counts: Counts, share: float) -> float:
    """The quantile `share` (0..1); nan of an empty histogram."""
    total = int(counts.sum())
    if total == 0:
        return float("nan")
    rank = min(max(int(np.ceil(share * total)), 1), total)
    return float(MIDDLES_NS[np.searchsorted(np.cumsum(counts), rank)])
