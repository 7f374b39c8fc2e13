"""The table of topic settings, and the effective settings of one topic.

A topic's own value goes before the broker's setting of the same meaning (SYNONYM), that before the
default. All rows may change at any time. `write.caching` and `kbroker.*` are kbroker's own,
`confluent.*` are Confluent Server's.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.config.checks import GzipLevel, ThrottledReplicas, at_least, between, list_of, one_of
from kbroker.config.inert import INERT_TOPIC_GROUPS
from kbroker.config.setting import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    ConfigError,
    Setting,
    Value,
    table,
)

DELIVERY_DELAY, RECORD_TTL = "kbroker.delivery.delay.ms", "kbroker.record.ttl.ms"
MAX_DELAY_MS = 7 * 86_400_000
"""The maximum delay of a record, by its topic or by its header."""
SCHEMAS = "_schemas"
"""The topic that the schema registry writes."""
WRITTEN_HERE = "a topic of the broker or its schema registry"

SUBJECTS = tuple(
    f"io.confluent.kafka.serializers.subject.{name}"
    for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
)
"""Confluent's classes that name the subject of a schema."""

# fmt: off
ROWS = (
    Setting("cleanup.policy", LIST, ("delete",), list_of("compact", "delete"),
            doc="This config designates the retention policy to use on log segments. Old segments are deleted, "
            "compacted, both, or kept when the list is empty."),
    Setting("compression.gzip.level", INT, -1, GzipLevel(),
            doc="Level used when the broker compresses with gzip."),
    Setting("compression.lz4.level", INT, 9, between(1, 17),
            doc="Level used when the broker compresses with lz4."),
    Setting("compression.type", STRING, "producer",
            one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            doc="Codec of stored batches; producer keeps the codec that the producer used."),
    Setting("compression.zstd.level", INT, 3, between(-131072, 22),
            doc="Level used when the broker compresses with zstd."),
    Setting("confluent.key.schema.validation", BOOLEAN, False,
            doc="Refuse records whose key does not name a schema that is registered for it (`kbroker docs registry`). "
                "A setting of Confluent Server."),
    Setting("confluent.key.subject.name.strategy", CLASS, SUBJECTS[0], one_of(*SUBJECTS),
            doc="Subject that a key's schema must be registered under."),
    Setting("confluent.value.schema.validation", BOOLEAN, False,
            doc="Refuse records whose value does not name a schema that is registered for it (`kbroker docs "
                "registry`). A setting of Confluent Server."),
    Setting("confluent.value.subject.name.strategy", CLASS, SUBJECTS[0], one_of(*SUBJECTS),
            doc="Subject that a value's schema must be registered under."),
    Setting("delete.retention.ms", LONG, 86400000, at_least(0),
            doc="How long tombstones and transaction markers stay after cleaning."),
    Setting("errors.deadletterqueue.group.enable", BOOLEAN, False,
            doc="Let share groups use this topic as their dead-letter topic (`kbroker docs dead-letters`). Known to "
                "Apache Kafka from 4.4 on."),
    Setting("file.delete.delay.ms", LONG, 60000, at_least(0),
            doc="Time between renaming a deleted file and removing it."),
    Setting("flush.messages", LONG, LONG_MAX, at_least(1),
            doc="Number of records after which a partition is synced to disk; 1 syncs every append."),
    Setting("flush.ms", LONG, LONG_MAX, at_least(0),
            doc="Age of unsynced records at which a partition is synced to disk."),
    Setting("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas(), repeats=True,
            doc="Replicas that follower.replication.throttled.rate limits: partition:node pairs, or * for all."),
    Setting("index.interval.bytes", INT, 4096, at_least(0),
            doc="Bytes of records between two entries of the offset index."),
    Setting("internal.segment.bytes", INT, None, internal=True,
            doc="Segment size below the minimum that segment.bytes allows; for tests."),
    Setting(DELIVERY_DELAY, LONG, -1, between(-1, MAX_DELAY_MS),
            doc="Age at which share groups get a record of the topic, unless its header kbroker-deliver-at gives a "
                "time (`kbroker docs queues`). 0: only the header delays records; -1: nothing does. Not for topics of "
                "the broker or its schema registry. A setting of kbroker."),
    Setting(RECORD_TTL, LONG, -1, at_least(-1),
            doc="Age at which records expire: the log then starts after them (`kbroker docs queues`). -1: never. Not "
                "for topics that are only compacted. A setting of kbroker."),
    Setting("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas(), repeats=True,
            doc="Replicas whose copies leader.replication.throttled.rate limits: partition:node pairs, or * for "
                "all."),
    Setting("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1),
            doc="Age at which a log is due for cleaning regardless of its ratio of dirty bytes."),
    Setting("max.message.bytes", INT, 1048588, at_least(0),
            doc="Largest record batch accepted, after compression."),
    Setting("message.timestamp.after.max.ms", LONG, 3600000, at_least(0),
            doc="How far a record's timestamp may lie in the future."),
    Setting("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0),
            doc="How far a record's timestamp may lie in the past."),
    Setting("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
            doc="CreateTime keeps the producer's timestamp, LogAppendTime sets the broker's."),
    Setting("min.cleanable.dirty.ratio", DOUBLE, 0.5, between(0, 1),
            doc="Share of dirty bytes at which a log is due for cleaning."),
    Setting("min.compaction.lag.ms", LONG, 0, at_least(0),
            doc="Age below which a record is not compacted away."),
    Setting("min.insync.replicas", INT, 1, at_least(1),
            doc="Replicas that must be in sync for acks=all to succeed."),
    Setting("preallocate", BOOLEAN, False,
            doc="Reserve a segment's disk space when it is created."),
    Setting("remote.storage.enable", BOOLEAN, False,
            doc="Tiered storage; kbroker has none, so true is refused."),
    Setting("retention.bytes", LONG, -1,
            doc="Size a partition may reach before its oldest segments are deleted; -1: no limit."),
    Setting("retention.ms", LONG, 604800000, at_least(-1),
            doc="Age at which a closed segment is deleted; -1 keeps it forever."),
    Setting("segment.bytes", INT, 1073741824, at_least(1048576),
            doc="A segment that would grow past this is rolled."),
    Setting("segment.index.bytes", INT, 10485760, at_least(4),
            doc="Largest offset index of a segment."),
    Setting("segment.jitter.ms", LONG, 0, at_least(0),
            doc="Maximum random reduction of segment.ms, so that segments do not roll together."),
    Setting("segment.ms", LONG, 604800000, at_least(1),
            doc="Age at which the active segment is rolled. Of a log with 2,000 segments, one below 1 MiB grows for a "
                "minute first."),
    Setting("unclean.leader.election.enable", BOOLEAN, False,
            doc="Let a replica that is not in sync become leader when no other is left."),
    Setting("write.caching", BOOLEAN, True,
            doc="With false, acks=all is answered only when the bytes are on disk; all waiting appends share "
                "syncs. A setting of kbroker."),
)
# fmt: on

# fmt: off
SYNONYM = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "local.retention.bytes": "log.local.retention.bytes",
    "local.retention.ms": "log.local.retention.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
    "write.caching": "kbroker.write.caching",
}
# fmt: on


_INERT = (row for group in INERT_TOPIC_GROUPS for row in group.rows)
TOPIC: Mapping[str, Setting] = table(sorted((*ROWS, *_INERT), key=lambda row: row.name))

_BROKER_VALUE: dict[str, Callable[[BrokerConfig], Value]] = {
    "retention.ms": lambda broker: broker.log_retention_ms,
    "segment.ms": lambda broker: broker.log_roll_ms,
    "segment.jitter.ms": lambda broker: broker.log_roll_jitter_ms,
    "flush.ms": lambda broker: broker.log_flush_interval_ms,
}


class TopicConfig(Struct, frozen=True):
    """Effective settings of one topic, one attribute a row. Sizes in bytes, times in
    milliseconds."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    confluent_key_schema_validation: bool
    confluent_key_subject_name_strategy: str
    confluent_value_schema_validation: bool
    confluent_value_subject_name_strategy: str
    delete_retention_ms: int
    errors_deadletterqueue_group_enable: bool
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    internal_segment_bytes: int | None
    kbroker_delivery_delay_ms: int
    kbroker_record_ttl_ms: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    write_caching: bool

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """The topic's own settings over the broker's (file and dynamic layers). Raises
        ConfigError."""
        values: dict[str, Any] = effective(overrides, broker)
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
        if low > high:
            why = f"min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
            raise ConfigError(f"conflict topic config setting {why}")
        if values["remote.storage.enable"]:
            why = "Topic cannot be configured with remote log storage."
            raise ConfigError(f"Tiered Storage functionality is disabled in the broker. {why}")
        return cls(**{name.replace(".", "_"): value for name, value in values.items()})

    def check(self, written_here: bool) -> None:
        """Refuse combinations that a change of the topic must not contain; when a setting of the
        broker causes one, it has no effect. written_here: the broker or its schema registry writes
        the topic. Raises ConfigError."""
        if self.kbroker_record_ttl_ms >= 0 and (written_here or not self.delete):
            why = WRITTEN_HERE if written_here else "cleanup.policy without delete"
            raise ConfigError(
                f"conflict topic config setting {RECORD_TTL} ({self.kbroker_record_ttl_ms}) with {why}"
            )
        if written_here and self.kbroker_delivery_delay_ms >= 0:
            set_to = f"{DELIVERY_DELAY} ({self.kbroker_delivery_delay_ms})"
            raise ConfigError(f"conflict topic config setting {set_to} with {WRITTEN_HERE}")
        for part in ("key", "value"):
            if written_here and getattr(self, f"confluent_{part}_schema_validation"):
                name = f"confluent.{part}.schema.validation"
                raise ConfigError(f"conflict topic config setting {name} (true) with {WRITTEN_HERE}")

    @property
    def ttl_ms(self) -> int:
        """Age at which records expire, -1 when they do not."""
        return self.kbroker_record_ttl_ms if self.delete else -1

    @property
    def max_age_ms(self) -> int:
        """Age at which a segment is deleted, -1 for never."""
        return min((age for age in (self.retention_ms, self.ttl_ms) if age >= 0), default=-1)

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which to roll: a compacted log rolls in time to be cleaned
        (LogConfig.maxSegmentMs)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms


def effective(overrides: Mapping[str, str], broker: BrokerConfig) -> dict[str, Value]:
    """Value of every topic row by name. Raises ConfigError for an unknown name or a bad value."""
    for name in overrides:
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
    values: dict[str, Value] = {}
    for name, row in TOPIC.items():
        if name in overrides:
            values[name] = row.parse(overrides[name])
        elif name in _BROKER_VALUE:
            values[name] = _BROKER_VALUE[name](broker)
        elif name in SYNONYM:
            values[name] = broker.value(SYNONYM[name])
        else:
            values[name] = row.default_value()
    return values
