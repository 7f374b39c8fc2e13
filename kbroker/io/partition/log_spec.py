"""Slot, folder and settings with which a log is opened."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig

Words = NDArray[np.int64]


class LogSpec(Struct, frozen=True):
    """slot: its number; words: the shared Slot; row: the worker's AppendRow.

    leads, replicated: see ReplicaRole. known_mark: high watermark that a predecessor of this run
    published. reserve_max_bytes: see `reserve_ahead`. first_dirty: everything below was compacted;
    -1 when nothing was.
    """

    slot: int
    words: Words
    row: Words
    folder: str
    topic: str
    partition: int
    topic_id: bytes
    config: TopicConfig
    leads: bool = True
    replicated: bool = False
    known_mark: int | None = None
    reserve_max_bytes: int = 0
    first_dirty: int = -1
