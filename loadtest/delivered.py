"""Rows of `reads`, computed from a consumer's records in the process that writes them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def described(heads: npt.NDArray[np.void], ours: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Columns from the headers of values; -1 for a value without one."""
    names = ("producer", "seq", "partition_seq", "intended_ns")
    columns = {name: np.where(ours, heads[name].astype(np.int64), -1) for name in names}
    return {**columns, "flags": heads["flags"].astype(np.int8)}


class Decoded(NamedTuple):
    """Fields of messages, one value each. heads: headers (record.HEADER); ours: the value is a load
    test's; intact: it is of this run and unchanged."""

    partitions: npt.NDArray[np.int32]
    offsets: Numbers
    timestamps_ms: Numbers
    keys: Numbers
    heads: npt.NDArray[np.void]
    ours: npt.NDArray[np.bool_]
    intact: npt.NDArray[np.bool_]
    header_sums: Numbers
    size: int  # bytes of all values


@dataclass(slots=True)
class Delivered:
    """Records of one topic, in order of delivery."""

    consumer: int
    first_position: int
    topic: str
    assignments: npt.NDArray[np.int32]
    decoded: Decoded
    seen_ns: Numbers

    def __call__(self) -> dict[str, Any]:
        """The columns."""
        found = self.decoded
        return {
            "consumer": self.consumer,
            "position": np.arange(self.first_position, self.first_position + len(found.heads)),
            "assignment": self.assignments[found.partitions],
            "topic": self.topic,
            "partition": found.partitions,
            "offset": found.offsets,
            "timestamp_ms": found.timestamps_ms,
            "key": found.keys,
            **described(found.heads, found.ours),
            "intact": found.intact,
            "seen_ns": self.seen_ns,
            "header_sum": found.header_sums,
        }
