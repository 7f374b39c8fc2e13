"""Rows of `reads`, computed from a consumer's records in the process that writes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def described(heads: npt.NDArray[np.void], ours: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Columns from the headers of values; -1 for a value without one."""
    names = ("producer", "seq", "partition_seq", "intended_ns")
    columns = {name: np.where(ours, heads[name].astype(np.int64), -1) for name in names}
    return {**columns, "flags": heads["flags"].astype(np.int8)}


@dataclass(slots=True)
class Delivered:
    """Records of one topic, in order of delivery. heads: headers (record.HEADER); ours: whether the
    value has one."""

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
    header_sums: Numbers

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
            **described(self.heads, self.ours),
            "intact": self.intact,
            "seen_ns": self.seen_ns,
            "header_sum": self.header_sums,
        }
