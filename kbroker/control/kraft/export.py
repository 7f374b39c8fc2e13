"""Export of the store as KRaft metadata, so that Apache Kafka starts on the log dirs of a stopped
broker.

The node is written as Kafka restarts it: fenced, its partitions in sync and without leader; the
controller elects one as soon as the broker has registered. The clean shutdown markers need the
broker's epoch, too: a broker with a different epoch counts as stopped uncleanly and loses its place
in the in-sync sets (KIP-966). Settings that only kbroker knows stay in the store
(`import_metadata.py` keeps them).
"""

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from kbroker.config.topic import SYNONYM
from kbroker.control.kraft import records as kr
from kbroker.control.kraft.metadata_folder import FOLDER, MARK, fingerprint, folder_of
from kbroker.control.kraft.snapshot import SnapshotId, build, write
from kbroker.control.metadata import kafka_metadata
from kbroker.control.metadata.features import FEATURES
from kbroker.control.store.change import Stored
from kbroker.control.store.store import Store
from kbroker.protocol.schema import Struct

NEWEST: Final = "4.3"
RELEASES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "3.9": {"metadata.version": 21},
        "4.0": {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
        "4.1": {
            "metadata.version": 27,
            "group.version": 1,
            "transaction.version": 2,
            "eligible.leader.replicas.version": 1,
        },
        "4.2": {**{name: f.max_level for name, f in FEATURES.items()}, "metadata.version": 29},
        NEWEST: {name: f.max_level for name, f in FEATURES.items()},
    }
)
"""The highest feature levels that each Apache Kafka knows, the oldest first."""
METADATA_VERSION: Final = "metadata.version"
_NOT_A_FEATURE_RECORD: Final = "kraft.version"
SET_LEVEL: Final = "kbroker.set."
"""Begins the names, always at level 0, by which a backup lists the features whose levels were set:
the others have the defaults of the kbroker that serves the restored data. Apache Kafka accepts
level 0 of a feature that it does not know."""
DEAD_LETTERS: Final = "errors.deadletterqueue."
"""Settings that Apache Kafka has from 4.4 on begin so."""


class ExportError(Exception):
    """These log dirs cannot be exported as they are; the text has the reason."""


class Exported(msgspec.Struct, frozen=True):
    """The result of an export. broker_epoch: for the clean shutdown markers. left_out: settings
    that Kafka does not know, as `resource: name`."""

    release: str
    snapshot: Path
    broker_epoch: int
    topics: int
    partitions: int
    left_out: tuple[str, ...]


def is_own(name: str) -> bool:
    """Whether only kbroker has a dynamic config, or whether it is newer than the releases of Kafka
    that are exported to."""
    newer = name.startswith(DEAD_LETTERS)
    return (
        newer or name.startswith(("kbroker.", "confluent.")) or SYNONYM.get(name, "").startswith("kbroker.")
    )


def release_of(features: Mapping[str, int]) -> str:
    """The newest release whose metadata.version is not above that of a metadata log, so the Apache
    Kafka that used the log knows it. NEWEST for a log without, the oldest if all are above."""
    level = features.get(METADATA_VERSION)
    if level is None:
        return NEWEST
    known = [name for name, levels in RELEASES.items() if levels[METADATA_VERSION] <= level]
    return known[-1] if known else next(iter(RELEASES))


def export(
    store: Store,
    log_dirs: Sequence[str],
    node_id: int,
    directory_ids: Mapping[str, str],
    release: str | None,
    now_ms: int,
) -> Exported:
    """Write the snapshot. log_dirs: absolute, locked, closed clean. directory_ids: of them.
    release: None for that of the metadata log in them (`release_of`).

    Raises ExportError, UnreadableMetadata, OSError."""
    stored = store.load()
    _check(stored, log_dirs)
    folder = folder_of(log_dirs)
    found = kafka_metadata.read(log_dirs) or kafka_metadata.KafkaMetadata()
    snapshot = SnapshotId(found.end.end_offset + 1, max(found.end.epoch, 1))
    next_id = int(store.meta("next_producer_id", "0"))
    epoch = snapshot.end_offset
    dirs = {path: _uuid(text) for path, text in directory_ids.items()}
    release = release or release_of(found.features)
    messages = chain(
        _features(stored.features, RELEASES[release]),
        [_broker(node_id, epoch, sorted(dirs.values()))],
        _messages(stored, node_id, dirs),
        [kr.ProducerIdsRecord(node_id, -1, max(next_id, found.next_producer_id or 0))],
    )
    voters = [found.voters[kind] for kind in sorted(found.voters)]
    place = write(
        folder or Path(log_dirs[0], FOLDER),
        snapshot,
        build(messages, voters, snapshot.epoch, now_ms),
    )
    store.put_meta(MARK, fingerprint(log_dirs))
    own = sorted(
        f"{resource or 'all brokers'}: {name}"
        for (_, resource), configs in stored.configs.items()
        for name in configs
        if is_own(name)
    )
    count = sum(len(topic.partitions) for topic in stored.topics)
    return Exported(release, place, epoch, len(stored.topics), count, tuple(own))


def portable(store: Store, node_id: int, directory_id: str, release: str, now_ms: int) -> bytes:
    """A snapshot for a backup: the store's contents, including kbroker's own settings, every
    partition once, in one log dir."""
    stored = store.load()
    directory = _uuid(directory_id)
    dirs = {partition.log_dir: directory for topic in stored.topics for partition in topic.partitions}
    messages = chain(
        _features(stored.features, RELEASES[release]),
        (kr.FeatureLevelRecord(SET_LEVEL + name, 0) for name in stored.features),
        _messages(stored, node_id, dirs, own=True),
        [kr.ProducerIdsRecord(node_id, -1, int(store.meta("next_producer_id", "0")))],
    )
    return build(messages, (), 1, now_ms)


def _check(stored: Stored, log_dirs: Collection[str]) -> None:
    partitions = [partition for topic in stored.topics for partition in topic.partitions]
    if elsewhere := sorted({r.log_dir for p in partitions for r in p.replicas} - set(log_dirs)):
        raise ExportError(f"partitions lie in log dirs that were not named: {', '.join(elsewhere)}")
    if replicated := [p for p in partitions if p.replicated]:
        first = replicated[0]
        raise ExportError(
            f"partitions with several replicas on this host: {len(replicated)}, the first is "
            f"{first.topic}-{first.index}. A Kafka node holds one: reassign them to one replica each first "
            "(`kbroker topics reassign`)"
        )


def _broker(node_id: int, epoch: int, log_dirs: Sequence[bytes]) -> Struct:
    return kr.RegisterBrokerRecord(
        node_id, incarnation_id=uuid.uuid4().bytes, broker_epoch=epoch, log_dirs=list(log_dirs)
    )


def _messages(
    stored: Stored, node_id: int, directory_ids: Mapping[str, bytes], own: bool = False
) -> Iterator[Struct]:
    """own: with settings that only kbroker knows."""
    for topic in stored.topics:
        yield kr.TopicRecord(topic.name, topic.topic_id)
        for partition in topic.partitions:
            yield kr.PartitionRecord(
                partition.index,
                topic.topic_id,
                replicas=[node_id],
                isr=[node_id],
                leader_epoch=partition.leader_epoch,
                partition_epoch=0,
                directories=[directory_ids[partition.log_dir]],
            )
    for (kind, resource), configs in stored.configs.items():
        for name, value in configs.items():
            if own or not is_own(name):
                yield kr.ConfigRecord(kind, resource, name, value)
    for entity, quotas in stored.client_quotas.items():
        for key, amount in quotas.items():
            yield kr.ClientQuotaRecord([kr.QuotaEntity(*part) for part in entity], key, amount)
    for (user, mechanism), credential in stored.scram.items():
        yield kr.UserScramCredentialRecord(user, mechanism, *credential)
    for token in stored.tokens.values():
        yield kr.DelegationTokenRecord(
            token.owner,
            token.requester,
            list(token.renewers),
            token.issued_ms,
            token.max_ms,
            token.expiry_ms,
            token.token_id,
        )
    for acl in stored.acls:
        yield kr.AccessControlEntryRecord(uuid.uuid4().bytes, *acl)


def _features(stored: Mapping[str, int], known: Mapping[str, int]) -> Iterator[Struct]:
    """metadata.version comes first: the format of the others depends on it."""
    for name in sorted(known, key=lambda name: (name != METADATA_VERSION, name)):
        level = min(stored.get(name, FEATURES[name].default), known[name])
        if level > 0 and name != _NOT_A_FEATURE_RECORD:
            yield kr.FeatureLevelRecord(name, level)


def _uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")
