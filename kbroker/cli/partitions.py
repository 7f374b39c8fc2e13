"""The partitions of a command, and their earliest and latest offsets (Metadata, ListOffsets)."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, broker_error, result_of
from kbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, OffsetSpec

Partition = tuple[str, int]
MAX_PARTITIONS = 100_000
_NUMBERS = r"[0-9]{1,20}(?:-[0-9]{1,20})?"
_SCOPE = re.compile(rf"(?P<topic>[^:]+)(?::(?P<partitions>{_NUMBERS}(?:,{_NUMBERS})*))?")


def partitions_of(admin: "AdminClient", topics: Iterable[str], timeout_s: float) -> list[Partition]:
    """All partitions of these topics, sorted. Raises CommandFailed for a missing topic."""
    existing = admin.list_topics(timeout=timeout_s).topics  # a request with a name may create the topic
    found: list[Partition] = []
    for name in topics:
        if name not in existing:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value, None, name)
        found += [(name, number) for number in sorted(existing[name].partitions)]
    return found


def without_leader(admin: "AdminClient", partitions: Iterable[Partition], timeout_s: float) -> set[Partition]:
    """Partitions of which nothing can be read now, as after the loss of a disk. Raises
    CommandFailed."""
    topics = admin.list_topics(timeout=timeout_s).topics
    return {
        (topic, number)
        for topic, number in partitions
        if topic in topics and (found := topics[topic].partitions.get(number)) and found.leader < 0
    }


def parse_scope(text: str) -> tuple[str, list[int]]:
    """`topic` or `topic:0,3-5`; no numbers means all. Raises UsageFailed."""
    match = _SCOPE.fullmatch(text)
    if match is None:
        raise UsageFailed(f"{text!r}: expected TOPIC or TOPIC:PARTITION[,PARTITION...]")
    numbers: list[int] = []
    for part in (match["partitions"] or "").split(","):
        first, _, last = part.partition("-")
        span = int(last or first) - int(first) if part else 0
        if span < 0:  # an empty range would mean no partitions, which stands for all
            raise UsageFailed(f"{text!r}: {part} ends before it begins")
        if span > MAX_PARTITIONS:
            raise UsageFailed(f"{text!r}: {part} names too many partitions")
        if part:
            numbers += range(int(first), int(last or first) + 1)
    return match["topic"], numbers


def scoped(admin: "AdminClient", scopes: Sequence[str], timeout_s: float) -> list[Partition]:
    """The partitions of these scopes. Raises UsageFailed, CommandFailed if one does not exist."""
    found: list[Partition] = []
    for scope in scopes:
        topic, numbers = parse_scope(scope)
        existing = partitions_of(admin, [topic], timeout_s)
        missing = sorted({(topic, number) for number in numbers} - set(existing))
        if missing:
            raise CommandFailed(f"{topic} has no partition {', '.join(str(number) for _, number in missing)}")
        found += [(topic, number) for number in numbers] or existing
    return sorted(set(found))


def scoped_or_all(admin: "AdminClient", scopes: Sequence[str] | None, timeout_s: float) -> list[Partition]:
    """As `scoped`; without scopes every partition of every topic."""
    if scopes:
        return scoped(admin, scopes, timeout_s)
    return partitions_of(admin, sorted(admin.list_topics(timeout=timeout_s).topics), timeout_s)


def list_offsets(
    broker: Connection,
    admin: "AdminClient",
    spec: "OffsetSpec",
    partitions: Iterable[Partition],
    *,
    committed: bool = False,
    skip_missing: bool = False,
) -> dict[Partition, tuple[int, int]]:
    """(offset, its timestamp) of each partition; -1 if there is none. committed: the latest offset
    is the last stable offset instead of the high watermark. skip_missing: leave out partitions that
    do not exist. Raises CommandFailed."""
    from confluent_kafka import IsolationLevel, TopicPartition

    specs: dict[Any, Any] = {TopicPartition(topic, number): spec for topic, number in partitions}
    if not specs:
        return {}
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found = {}
    answers = admin.list_offsets(specs, isolation_level=level, request_timeout=broker.timeout_s)
    for partition, future in answers.items():
        try:
            answer = result_of(future, f"{partition.topic}-{partition.partition}")
        except CommandFailed as failure:
            if skip_missing and failure.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            raise
        found[(partition.topic, partition.partition)] = (answer.offset, answer.timestamp)
    return found


def earliest(
    broker: Connection, admin: "AdminClient", partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """Log start offsets."""
    from confluent_kafka.admin import OffsetSpec

    return _only_offsets(list_offsets(broker, admin, OffsetSpec.earliest(), partitions))


def latest(
    broker: Connection, admin: "AdminClient", partitions: Iterable[Partition], *, committed: bool = False
) -> dict[Partition, int]:
    """High watermarks, or last stable offsets."""
    from confluent_kafka.admin import OffsetSpec

    return _only_offsets(list_offsets(broker, admin, OffsetSpec.latest(), partitions, committed=committed))


def at_time(
    broker: Connection, admin: "AdminClient", partitions: Sequence[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    """The first offset at or after a time; the end of the log if no record is that late."""
    from confluent_kafka.admin import OffsetSpec

    found = _only_offsets(list_offsets(broker, admin, OffsetSpec.for_timestamp(timestamp_ms), partitions))
    late = [partition for partition, offset in found.items() if offset < 0]
    return found | latest(broker, admin, late)


def before_time(
    broker: Connection, admin: "AdminClient", partitions: Sequence[Partition], timestamp_ms: int
) -> dict[Partition, int]:
    """Offsets before which every record is older than this time.

    The ends are requested first, so a record that arrives between the two requests is after
    them."""
    from confluent_kafka.admin import OffsetSpec

    ends = latest(broker, admin, partitions)
    found = _only_offsets(list_offsets(broker, admin, OffsetSpec.for_timestamp(timestamp_ms), partitions))
    return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}


def _only_offsets(found: dict[Partition, tuple[int, int]]) -> dict[Partition, int]:
    return {partition: offset for partition, (offset, _) in found.items()}
