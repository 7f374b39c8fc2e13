"""Rows of `reads`, made of what a consumer had at hand: in the process that writes them, not in the consumer's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Delivered:
    """Records of one topic, in order of delivery. heads: of record.HEADER; ours: whether the value has one."""

    consumer: int
    first_position: int
    topic: str
    assignments: npt.NDArray[np.int32]
    partitions: npt.NDArray[np.int32]
    offsets: Numbers
    timestamps_ms: Numbers
    keys: Numbers
    heads: npt.NDArray[np.void]
    ours: npt.NDArray[np.bool_]
    intact: npt.NDArray[np.bool_]
    seen_ns: Numbers

    def __call__(self) -> dict[str, Any]:
        """The columns."""
        return {
            "consumer": self.consumer,
            "position": np.arange(self.first_position, self.first_position + len(self.heads)),
            "assignment": self.assignments[self.partitions],
            "topic": self.topic,
            "partition": self.partitions,
            "offset": self.offsets,
            "timestamp_ms": self.timestamps_ms,
            "key": self.keys,
            "producer": self._field("producer"),
            "seq": self._field("seq"),
            "partition_seq": self._field("partition_seq"),
            "flags": self.heads["flags"].astype(np.int8),
            "intact": self.intact,
            "intended_ns": self._field("intended_ns"),
            "seen_ns": self.seen_ns,
        }

    def _field(self, name: str) -> Numbers:
        return np.where(self.ours, self.heads[name].astype(np.int64), -1)
