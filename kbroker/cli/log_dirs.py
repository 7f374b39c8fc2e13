"""The log dirs of all brokers and their logs, from the answers of DescribeLogDirs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DescribedLog:
    """A log in a log dir. future: a copy that will replace the log when it has caught up."""

    topic: str
    partition: int
    bytes: int
    offset_lag: int
    future: bool


@dataclass(frozen=True)
class DescribedLogDir:
    """A log dir. error_code: 0 when it is online. total_bytes, usable_bytes: of its disk; None if
    the broker does not report them."""

    broker: int
    path: str
    error_code: int
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    logs: tuple[DescribedLog, ...]

    @property
    def bytes(self) -> int:
        """The size of all logs in it."""
        return sum(log.bytes for log in self.logs)


def described(answers: Iterable[dict[str, Any]]) -> Iterator[DescribedLogDir]:
    """All log dirs in the answers, one answer for each broker."""
    for answer in answers:
        for entry in answer["log_dirs"]:
            yield DescribedLogDir(
                answer["broker"],
                entry["log_dir"],
                entry["error_code"],
                entry.get("total_bytes"),
                entry.get("usable_bytes"),
                bool(entry.get("is_cordoned")),
                tuple(_logs(entry)),
            )


def _logs(entry: dict[str, Any]) -> Iterator[DescribedLog]:
    for topic in entry["topics"]:
        for log in topic["partitions"]:
            yield DescribedLog(
                topic["name"],
                log["partition_index"],
                log["partition_size"],
                log["offset_lag"],
                log["is_future_key"],
            )
