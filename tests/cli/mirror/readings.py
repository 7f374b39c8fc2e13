"""Readings of partitions with chosen records, and copies as a killed MirrorMaker leaves them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from kbroker.cli.mirror.comparing import Reading


def reading(
    records: Sequence[int], offsets: Sequence[int] | None = None, keys: Sequence[int] | None = None
) -> Reading:
    """Records by numbers that stand for digests. By default the offsets have no gaps; a record with
    a negative number is a tombstone."""
    places = list(range(len(records))) if offsets is None else list(offsets)
    return Reading(
        np.array(places, np.int64),
        np.array([abs(record) for record in records], np.uint64),
        np.array([0] * len(records) if keys is None else keys, np.uint64),
        np.array([record < 0 for record in records], bool),
        places[-1] + 1 if places else 0,
    )


@st.composite
def killed_copies(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """(source, target, number of repeated records). The copy is killed some times and each time
    continues from an earlier position; few numbers, so that records of the source are equal,
    too."""
    source = draw(st.lists(st.integers(1, 6), min_size=1, max_size=30))
    target: list[int] = []
    position = copied = 0
    for _ in range(draw(st.integers(0, 3))):
        copied = draw(st.integers(position, len(source)))
        target += source[position:copied]
        position = draw(st.integers(position, copied))
    target += source[position:]
    return source, target, len(target) - len(source)
