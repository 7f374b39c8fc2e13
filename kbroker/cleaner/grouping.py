"""Groups neighbouring segments that are cleaned into one, so that segments do not get smaller with
each cleaning."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from kbroker.kernels.memory import INT32_MAX

MANY: Final = 64
"""Segments of a group: the IO worker renames all of their files in one piece. The cleaned ones are
neighbours at the next cleaning."""


class Extent(Struct, frozen=True):
    """Sizes of a segment for grouping: bytes of its .log, .index and .timeindex."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int


def group(
    extents: Sequence[Extent], max_bytes: int, max_index_bytes: int, first_uncleanable: int
) -> list[list[int]]:
    """Base offsets of the segments of each group, oldest first (Kafka's
    Cleaner.groupSegmentsBySize, without the bound of their number).

    A group's sums stay within the limits of one segment, its offsets within an int32 from its
    base."""
    groups: list[list[int]] = []
    size = index_bytes = time_bytes = 0
    for n, extent in enumerate(extents):
        following = extents[n + 1].base_offset if n + 1 < len(extents) else first_uncleanable
        if (
            groups
            and len(groups[-1]) < MANY
            and size + extent.size <= max_bytes
            and index_bytes + extent.index_bytes <= max_index_bytes
            and time_bytes + extent.time_index_bytes <= max_index_bytes
            and (extent.size == 0 or following - 1 - groups[-1][0] <= INT32_MAX)
        ):
            groups[-1].append(extent.base_offset)
        else:
            groups.append([extent.base_offset])
            size = index_bytes = time_bytes = 0
        size += extent.size
        index_bytes += extent.index_bytes
        time_bytes += extent.time_index_bytes
    return groups
