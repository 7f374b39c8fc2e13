"""One backup point: the files, with checksums, of every partition at that time."""

import re
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct, field, json

from kbroker.cli.failures import CommandFailed
from kbroker.cli.points_in_time import MAX_MS
from kbroker.control.metadata.topic_name import is_valid
from kbroker.log.files import MAX_PARTITION_INDEX
from kbroker.protocol.kafka_uuid import parse_uuid

FORMAT = 1
_SHA256 = re.compile("[0-9a-f]{64}")
Index = Annotated[int, Meta(ge=0, le=MAX_PARTITION_INDEX)]
Offset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class SegmentFile(Struct, frozen=True):
    """A segment, whole or up to the high watermark. sha256 names the object that holds it."""

    base_offset: Offset
    size: Offset
    sha256: str


class PartitionFiles(Struct, frozen=True):
    """A partition up to its high watermark. epochs: (leader epoch, start offset) pairs below it."""

    topic: str
    index: Index
    topic_id: str
    log_start: Offset
    high_watermark: Offset
    segments: list[SegmentFile]
    epochs: list[tuple[int, int]] = field(default_factory=list)


class Point(Struct, frozen=True):
    """metadata: the object with settings, quotas, users and topics as a KRaft snapshot for
    directory_id."""

    time_ms: int
    cluster_id: str
    node_id: int
    directory_id: str
    metadata: SegmentFile
    partitions: list[PartitionFiles]
    format: int = FORMAT

    @property
    def name(self) -> str:
        """The manifest's name without suffix; names sort by time."""
        return datetime.fromtimestamp(self.time_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")

    def objects(self) -> list[SegmentFile]:
        """Every object that the point needs."""
        return [self.metadata, *(segment for one in self.partitions for segment in one.segments)]


def encode(point: Point) -> bytes:
    """The manifest's text."""
    return json.format(json.encode(point), indent=1)


def unreadable(place: str, error: Exception) -> CommandFailed:
    """The failure for a manifest that does not decode."""
    return CommandFailed(f"{place}: {error}; move this file away to use the other backups")


def decode(data: bytes) -> Point:
    """Raises msgspec.DecodeError, ValueError, also for names that would be paths elsewhere, and for
    numbers that no log has."""
    point = json.decode(data, type=Point)
    if point.format != FORMAT:
        raise ValueError(f"format {point.format}, only {FORMAT} is known")
    if not 0 <= point.time_ms <= MAX_MS:
        raise ValueError(f"{point.time_ms} ms is no time between 1970 and 9999")
    if wrong := next((one for one in point.partitions if not is_valid(one.topic)), None):
        raise ValueError(f"{wrong.topic!r} is no name of a topic")
    if odd := next((one for one in point.objects() if not _SHA256.fullmatch(one.sha256)), None):
        raise ValueError(f"{odd.sha256!r} is no SHA-256 checksum")
    for topic_id in {one.topic_id for one in point.partitions}:
        parse_uuid(topic_id)
    return point
