"""The log dirs of all brokers and their logs, from DescribeLogDirs."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, broker_error
from kbroker.cli.own_requests import ask_every_broker
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

_NAMED = 3
"""Maximum of hidden topics that are named."""


class DescribedLog(Struct, frozen=True):
    """A log in a log dir. future: a copy that will replace the log when it has caught up."""

    topic: str
    partition: int
    bytes: int
    offset_lag: int
    future: bool


class DescribedLogDir(Struct, frozen=True):
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
    """All log dirs in kafka-python's answers, one for each broker, with the logs of visible topics.
    Raises CommandFailed.

    kafka-python drops the error of the whole answer. Every broker has a log dir, so an answer
    without one is a refusal."""
    for answer in answers:
        if not answer["log_dirs"]:
            raise _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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


def all_log_dirs(broker: Connection) -> list[DescribedLogDir]:
    """The log dirs of all brokers, also with the logs of topics that Metadata hides from the user:
    kafka-python requests the visible ones by name. Raises CommandFailed."""
    answers = ask_every_broker(broker, ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None))
    return [log_dir for node, answer in answers.items() for log_dir in _of_answer(node, answer)]


def _of_answer(node: int, answer: DescribeLogDirsResponse) -> Iterator[DescribedLogDir]:
    if answer.error_code or not answer.results:  # an earlier version has no error of the whole answer
        raise _refused(answer.error_code or ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    for one in answer.results:
        logs = tuple(
            DescribedLog(
                topic.name, log.partition_index, log.partition_size, log.offset_lag, log.is_future_key
            )
            for topic in one.topics
            for log in topic.partitions
        )
        space = one.total_bytes, one.usable_bytes
        yield DescribedLogDir(node, one.log_dir, one.error_code, *space, one.is_cordoned, logs)


def _refused(code: int) -> CommandFailed:
    return broker_error(int(code), "log dirs need Describe on the cluster")


def hidden_topics(log_dirs: Iterable[DescribedLogDir], visible: Collection[str]) -> list[str]:
    """Topics of all_log_dirs that the user may not describe."""
    return sorted({log.topic for log_dir in log_dirs for log in log_dir.logs} - set(visible))


def refuse_hidden(topics: Sequence[str], consequence: str) -> None:
    """Raises CommandFailed if there are any."""
    if topics:
        names = ", ".join(topics[:_NAMED]) + (", ..." if len(topics) > _NAMED else "")
        raise CommandFailed(
            f"this user may not describe {names}: {consequence}; log in with a user who has Describe on all topics, or "
            "allow it (`kbroker acls add`)"
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
