"""Epochs and generations, which are int32 in messages and records, and epochs of producers, which
are int16."""

from typing import Final

MAX_EPOCH: Final = 2**31 - 1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
"""The last epoch of a producer id: it cannot be bumped."""
NO_EPOCH: Final = -1
"""The epoch of a producer or coordinator that a partition does not know yet."""


def next_epoch(epoch: int) -> int:
    """The epoch that follows. After the last it is the smallest number, as for Apache Kafka: no
    broker reaches it, but a record may hold it."""
    return -MAX_EPOCH - 1 if epoch >= MAX_EPOCH else epoch + 1
