"""The part of a KRaft broker's metadata log that partition folders lack: settings, quotas, users,
producer ids.

Read when folders that Apache Kafka wrote are adopted or come back: the newest snapshot
(`<offset>-<epoch>.checkpoint`), then the log after it. A record's value is a frame version, a type
and a version (unsigned varints), then the message (MetadataRecordSerde). Only the types in
`kraft/records.py` are read.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from pathlib import Path
from typing import Final

import msgspec
from msgspec import field

from kbroker.config.acls import Acl
from kbroker.config.client_quotas import Entity, entity_of
from kbroker.control.kraft import records as kr
from kbroker.control.kraft.metadata_folder import UnreadableMetadata, folder_of
from kbroker.control.kraft.snapshot import (
    FOOTER,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    NAME,
    SnapshotId,
    control_type,
)
from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.ipc.messages import ScramCredential
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from kbroker.protocol.codec import decode
from kbroker.protocol.compile_decode import read_uvarint
from kbroker.protocol.records import NewRecord, RecordBatch, read_batches, read_records
from kbroker.protocol.schema import ProtocolError, Struct

NOTHING: Final = SnapshotId(0, 0)


class KafkaMetadata(msgspec.Struct):
    """configs: by (resource type, name). topics: id by name. next_producer_id: None when none was
    handed out. scram: by user and mechanism. tokens: delegation tokens by id. acls: by id. end:
    after the last record. voters: control records of the quorum, by type."""

    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    topics: dict[str, bytes] = field(default_factory=dict)
    next_producer_id: int | None = None
    features: dict[str, int] = field(default_factory=dict)
    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[tuple[str, int], ScramCredential] = field(default_factory=dict)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    acls: dict[bytes, Acl] = field(default_factory=dict)
    end: SnapshotId = NOTHING
    voters: dict[int, NewRecord] = field(default_factory=dict)

    @singledispatchmethod
    def replay(self, record: Struct) -> None:
        """Apply one record."""
        raise TypeError(f"{type(record).__name__} is not replayed")

    @replay.register
    def _(self, record: kr.TopicRecord) -> None:
        self.topics[record.name] = record.topic_id

    @replay.register
    def _(self, record: kr.RemoveTopicRecord) -> None:
        name = next((name for name, known in self.topics.items() if known == record.topic_id), None)
        if name is not None:
            del self.topics[name]
            self.configs.pop((TOPIC, name), None)

    @replay.register
    def _(self, record: kr.ConfigRecord) -> None:
        configs = self.configs.setdefault((record.resource_type, record.resource_name), {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    @replay.register
    def _(self, record: kr.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    @replay.register
    def _(self, record: kr.FeatureLevelRecord) -> None:
        self.features[record.name] = record.feature_level

    @replay.register
    def _(self, record: kr.ClientQuotaRecord) -> None:
        entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
        quotas = self.quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value

    @replay.register
    def _(self, record: kr.UserScramCredentialRecord) -> None:
        credential = (record.salt, record.stored_key, record.server_key, record.iterations)
        self.scram[record.name, record.mechanism] = ScramCredential(*credential)

    @replay.register
    def _(self, record: kr.RemoveUserScramCredentialRecord) -> None:
        self.scram.pop((record.name, record.mechanism), None)

    @replay.register
    def _(self, record: kr.DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = DelegationToken(
            record.token_id,
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    @replay.register
    def _(self, record: kr.RemoveDelegationTokenRecord) -> None:
        self.tokens.pop(record.token_id, None)

    @replay.register
    def _(self, record: kr.AccessControlEntryRecord) -> None:
        self.acls[record.acl_id] = Acl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    @replay.register
    def _(self, record: kr.RemoveAccessControlEntryRecord) -> None:
        self.acls.pop(record.acl_id, None)

    def replay_batch(self, batch: RecordBatch) -> None:
        """Apply a batch. Raises ProtocolError."""
        for record in read_records(batch):
            if batch.is_control:
                kind = control_type(record.key)
                if kind in (KRAFT_VERSION, KRAFT_VOTERS):
                    self.voters[kind] = record.key, record.value, (), record.timestamp_ms
            elif record.value is not None and (decoded := parse(record.value)) is not None:
                self.replay(decoded)


def read(log_dirs: Sequence[str]) -> KafkaMetadata | None:
    """The metadata log of the first directory that has one; None without one. Raises
    UnreadableMetadata."""
    folder = folder_of(log_dirs)
    if folder is None:
        return None
    found = KafkaMetadata()
    try:
        for batch in _snapshot(folder, found):
            found.replay_batch(batch)
        for batch in _log(folder, found.end.end_offset):
            found.replay_batch(batch)
            found.end = SnapshotId(batch.last_offset + 1, batch.partition_leader_epoch)
    except (OSError, CorruptLog, ProtocolError) as error:
        raise UnreadableMetadata(folder, error) from error
    return found


def newest_snapshot(folder: Path) -> tuple[SnapshotId, Path] | None:
    """The latest snapshot in a metadata log's folder. Raises OSError."""
    found = [(match, path) for path in folder.iterdir() if (match := NAME.fullmatch(path.name))]
    if not found:
        return None
    match, path = max(found, key=lambda one: one[1].name)
    return SnapshotId(int(match[1]), int(match[2])), path


def _snapshot(folder: Path, found: KafkaMetadata) -> Iterable[RecordBatch]:
    """The batches of the newest snapshot. Raises ProtocolError if its end is missing."""
    if (newest := newest_snapshot(folder)) is None:
        return ()
    found.end, path = newest
    batches = list(read_batches(path.read_bytes(), whole=True))
    if not (batches and batches[-1].is_control and _ends(batches[-1])):
        raise ProtocolError(f"the end of {path.name} is missing")
    return batches


def _ends(batch: RecordBatch) -> bool:
    return any(control_type(record.key) == FOOTER for record in read_records(batch))


def _log(folder: Path, start: int) -> Iterator[RecordBatch]:
    for placed in walk(LogReader(str(folder), OpenFiles()), start):
        if not placed.batch.crc_is_valid:
            raise CorruptLog(f"the CRC of the batch at offset {placed.batch.base_offset} does not match")
        yield placed.batch


def parse(value: bytes) -> Struct | None:
    """The message in a record's value, None for a type that is of no interest. Raises
    ProtocolError."""
    try:
        frame_version, pos = read_uvarint(value, 0)
        kind, pos = read_uvarint(value, pos)
        version, pos = read_uvarint(value, pos)
    except IndexError:
        raise ProtocolError("a metadata record ends inside its header") from None
    if frame_version != kr.FRAME_VERSION:
        raise ProtocolError(f"metadata record of frame version {frame_version}")
    if kind not in kr.TYPES:
        return None
    message, _ = decode(kr.TYPES[kind], version, value, pos)
    return message
