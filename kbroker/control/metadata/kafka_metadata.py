"""What a KRaft broker's metadata log knows and its partition folders do not: dynamic configs, producer ids.

Read once, when folders that Apache Kafka wrote are adopted: the newest snapshot (`<offset>-<epoch>.checkpoint`), then
the log behind it. A record's value is a frame version, a type and a version (unsigned varints), then the message
(MetadataRecordSerde). Only the types below are looked at; ids and fields are those of Kafka's metadata schemas.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.log import files
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from kbroker.protocol.codec import decode
from kbroker.protocol.compile_decode import read_uvarint
from kbroker.protocol.records import RecordBatch, read_batches, read_records
from kbroker.protocol.schema import ZERO_UUID, Field, ProtocolError, Schema, Struct

log = logging.getLogger(__name__)

FRAME_VERSION: Final = 1
FOLDER: Final = files.folder_name(CLUSTER_METADATA, 0)
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_V0: Final = (0, 0)


@dataclass(slots=True)
class TopicRecord(Struct):
    """A topic was made."""

    name: str = ""
    topic_id: bytes = ZERO_UUID

    SCHEMA: ClassVar[Schema] = Schema(
        _V0, 0, (Field("name", "string", _V0, ""), Field("topic_id", "uuid", _V0, ZERO_UUID))
    )


@dataclass(slots=True)
class RemoveTopicRecord(Struct):
    """A topic is gone, and its configs with it."""

    topic_id: bytes = ZERO_UUID

    SCHEMA: ClassVar[Schema] = Schema(_V0, 0, (Field("topic_id", "uuid", _V0, ZERO_UUID),))


@dataclass(slots=True)
class ConfigRecord(Struct):
    """A dynamic config; value None drops it."""

    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""

    SCHEMA: ClassVar[Schema] = Schema(
        _V0,
        0,
        (
            Field("resource_type", "int8", _V0, 0),
            Field("resource_name", "string", _V0, ""),
            Field("name", "string", _V0, ""),
            Field("value", "string", _V0, "", nullable=_V0),
        ),
    )


@dataclass(slots=True)
class ProducerIdsRecord(Struct):
    """A block of producer ids was handed to a broker."""

    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0

    SCHEMA: ClassVar[Schema] = Schema(
        _V0,
        0,
        (
            Field("broker_id", "int32", _V0, 0),
            Field("broker_epoch", "int64", _V0, -1),
            Field("next_producer_id", "int64", _V0, 0),
        ),
    )


TYPES: Final[dict[int, type[Struct]]] = {
    2: TopicRecord,
    4: ConfigRecord,
    9: RemoveTopicRecord,
    15: ProducerIdsRecord,
}


@dataclass(slots=True)
class KafkaMetadata:
    """configs: by (resource type, name). topics: id by name. next_producer_id: None when none was handed out."""

    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    topics: dict[str, bytes] = field(default_factory=dict)
    next_producer_id: int | None = None

    def replay(self, record: Struct) -> None:
        """Apply one record."""
        if isinstance(record, TopicRecord):
            self.topics[record.name] = record.topic_id
        elif isinstance(record, RemoveTopicRecord):
            name = next((name for name, known in self.topics.items() if known == record.topic_id), None)
            if name is not None:
                del self.topics[name]
                self.configs.pop((TOPIC, name), None)
        elif isinstance(record, ConfigRecord):
            configs = self.configs.setdefault((record.resource_type, record.resource_name), {})
            if record.value is None:
                configs.pop(record.name, None)
            else:
                configs[record.name] = record.value
        elif isinstance(record, ProducerIdsRecord):
            self.next_producer_id = record.next_producer_id


def read(log_dirs: Sequence[str]) -> KafkaMetadata | None:
    """The metadata log of the first directory that has one; None without one, or when it can not be read."""
    folder = next((path for log_dir in log_dirs if (path := Path(log_dir, FOLDER)).is_dir()), None)
    if folder is None:
        return None
    found = KafkaMetadata()
    try:
        for record in _records(_batches(folder)):
            found.replay(record)
    except (OSError, CorruptLog, ProtocolError) as error:
        log.error(
            "%s can not be read, so configs of topics found on disk are the defaults: %s", folder, error
        )
        return None
    return found


def _batches(folder: Path) -> Iterator[RecordBatch]:
    snapshots = sorted(path for path in folder.iterdir() if _SNAPSHOT.fullmatch(path.name))
    start = 0
    if snapshots:
        start = int(snapshots[-1].name[:20])
        yield from read_batches(snapshots[-1].read_bytes())
    for placed in walk(LogReader(str(folder), OpenFiles()), start):
        yield placed.batch


def _records(batches: Iterable[RecordBatch]) -> Iterator[Struct]:
    for batch in batches:
        if batch.is_control:
            continue
        for record in read_records(batch):
            if record.value is not None and (decoded := parse(record.value)) is not None:
                yield decoded


def parse(value: bytes) -> Struct | None:
    """The message in a record's value, None for a type that is of no interest. Raises ProtocolError."""
    try:
        frame_version, pos = read_uvarint(value, 0)
        kind, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError:
        raise ProtocolError("a metadata record ends inside its header") from None
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"metadata record of frame version {frame_version}")
    if kind not in TYPES:
        return None
    message, _ = decode(TYPES[kind], version, value, pos)
    return message
