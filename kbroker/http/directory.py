"""Topics and partitions as the http process sees them, from control's images."""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from kbroker.ipc.messages import Image, PartitionImage, TopicImage


def _nothing() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


class Directory(Struct, frozen=True):
    """An immutable view. Row i of `slots`, `topic_numbers` and `partitions` is one partition.

    topic_numbers: place of the partition's topic in `topics`. follower_slots: of all replicas but
    the leaders; follower_rows: the rows of their partitions.
    """

    topics: tuple[TopicImage, ...] = ()
    partitions: tuple[PartitionImage, ...] = ()
    slots: NDArray[np.int64] = field(default_factory=_nothing)
    topic_numbers: NDArray[np.int64] = field(default_factory=_nothing)
    follower_slots: NDArray[np.int64] = field(default_factory=_nothing)
    follower_rows: NDArray[np.int64] = field(default_factory=_nothing)

    @staticmethod
    def of(topics: Mapping[str, TopicImage]) -> "Directory":
        """Topics in the order of their names."""
        ordered = tuple(topics[name] for name in sorted(topics))
        partitions = tuple(partition for topic in ordered for partition in topic.partitions)
        followers = [(slot, row) for row, each in enumerate(partitions) for slot in each.followers]
        counts = [len(topic.partitions) for topic in ordered]
        return Directory(
            ordered,
            partitions,
            np.array([partition.slot for partition in partitions], np.int64),
            np.repeat(np.arange(len(ordered), dtype=np.int64), np.array(counts, np.int64)),
            np.array([slot for slot, _ in followers], np.int64),
            np.array([row for _, row in followers], np.int64),
        )


def applied(topics: Mapping[str, TopicImage], image: Image) -> dict[str, TopicImage]:
    """The topics after an image."""
    after = {} if image.full else dict(topics)
    after.update({topic.name: topic for topic in image.topics})
    for name in image.deleted:
        after.pop(name, None)
    return after
