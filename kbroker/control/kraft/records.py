"""Messages of Kafka's metadata log that kbroker reads or writes; ids and fields are those of
Kafka's schemas."""

from typing import ClassVar, Final

from msgspec import field

from kbroker.protocol.codec import encode
from kbroker.protocol.schema import ZERO_UUID, Field, Schema, Struct

FRAME_VERSION: Final = 1
V0: Final = (0, 0)
V1: Final = (0, 1)
V3: Final = (0, 3)


def _schema(*fields: Field) -> Schema:
    return Schema(V0, 0, fields)


class RegisterBrokerRecord(Struct):
    """The broker, fenced as after a stop. end_points and features: empty, sent when the broker
    registers again.

    Only written. broker_epoch: that of `.kafka_cleanshutdown` after a clean stop."""

    broker_id: int = 0
    is_migrating: bool = False
    incarnation_id: bytes = ZERO_UUID
    broker_epoch: int = -1
    end_points: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: list[bytes] = field(default_factory=list)

    SCHEMA: ClassVar[Schema] = Schema(
        V3,
        0,
        (
            Field("broker_id", "int32", V3, 0),
            Field("is_migrating", "bool", (2, 3), default=False),
            Field("incarnation_id", "uuid", V3, ZERO_UUID),
            Field("broker_epoch", "int64", V3, -1),
            Field("end_points", "[]string", V3, ()),
            Field("features", "[]string", V3, ()),
            Field("rack", "string", V3, None, nullable=V3),
            Field("fenced", "bool", V3, default=True),
            Field("in_controlled_shutdown", "bool", (1, 3), default=False),
            Field("log_dirs", "[]uuid", (3, 3), (), tag=0, tagged=(3, 3)),
        ),
    )


class TopicRecord(Struct):
    """A topic was made."""

    name: str = ""
    topic_id: bytes = ZERO_UUID

    SCHEMA: ClassVar[Schema] = _schema(
        Field("name", "string", V0, ""), Field("topic_id", "uuid", V0, ZERO_UUID)
    )


class RemoveTopicRecord(Struct):
    """A topic is gone, and its configs with it."""

    topic_id: bytes = ZERO_UUID

    SCHEMA: ClassVar[Schema] = _schema(Field("topic_id", "uuid", V0, ZERO_UUID))


class PartitionRecord(Struct):
    """A partition. leader: -1 has the controller elect one. directories: log dirs' ids, by replica
    (since version 1).

    Only written: versions above 1 say more than a single node needs."""

    partition_id: int = -1
    topic_id: bytes = ZERO_UUID
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: list[bytes] = field(default_factory=list)

    SCHEMA: ClassVar[Schema] = Schema(
        V1,
        0,
        (
            Field("partition_id", "int32", V1, -1),
            Field("topic_id", "uuid", V1, ZERO_UUID),
            Field("replicas", "[]int32", V1, ()),
            Field("isr", "[]int32", V1, ()),
            Field("removing_replicas", "[]int32", V1, ()),
            Field("adding_replicas", "[]int32", V1, ()),
            Field("leader", "int32", V1, -1),
            Field("leader_epoch", "int32", V1, -1),
            Field("partition_epoch", "int32", V1, -1),
            Field("directories", "[]uuid", (1, 1), ()),
        ),
    )


class ConfigRecord(Struct):
    """A dynamic config; value None drops it."""

    resource_type: int = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""

    SCHEMA: ClassVar[Schema] = _schema(
        Field("resource_type", "int8", V0, 0),
        Field("resource_name", "string", V0, ""),
        Field("name", "string", V0, ""),
        Field("value", "string", V0, "", nullable=V0),
    )


class UserScramCredentialRecord(Struct):
    """A user's SCRAM credential. mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str = ""
    mechanism: int = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int = 0

    SCHEMA: ClassVar[Schema] = _schema(
        Field("name", "string", V0, ""),
        Field("mechanism", "int8", V0, 0),
        Field("salt", "bytes", V0, b""),
        Field("stored_key", "bytes", V0, b""),
        Field("server_key", "bytes", V0, b""),
        Field("iterations", "int32", V0, 0),
    )


class RemoveUserScramCredentialRecord(Struct):
    """A credential is gone."""

    name: str = ""
    mechanism: int = 0

    SCHEMA: ClassVar[Schema] = _schema(Field("name", "string", V0, ""), Field("mechanism", "int8", V0, 0))


class FeatureLevelRecord(Struct):
    """The finalized level of a feature; 0 is off."""

    name: str = ""
    feature_level: int = 0

    SCHEMA: ClassVar[Schema] = _schema(
        Field("name", "string", V0, ""), Field("feature_level", "int16", V0, 0)
    )


class QuotaEntity(Struct):
    """Part of whom a quota is for; name None is the default."""

    entity_type: str = ""
    entity_name: str | None = ""

    SCHEMA: ClassVar[Schema] = _schema(
        Field("entity_type", "string", V0, ""), Field("entity_name", "string", V0, "", nullable=V0)
    )


class ClientQuotaRecord(Struct):
    """A client quota; remove drops it."""

    entity: list[QuotaEntity] = field(default_factory=list)
    key: str = ""
    value: float = 0.0
    remove: bool = False

    SCHEMA: ClassVar[Schema] = _schema(
        Field("entity", "[]struct", V0, (), item=QuotaEntity),
        Field("key", "string", V0, ""),
        Field("value", "float64", V0, 0.0),
        Field("remove", "bool", V0, default=False),
    )


class AccessControlEntryRecord(Struct):
    """An ACL; its fields but the first are those of `config.acls.Acl`."""

    acl_id: bytes = ZERO_UUID
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0

    SCHEMA: ClassVar[Schema] = _schema(
        Field("acl_id", "uuid", V0, ZERO_UUID),
        Field("resource_type", "int8", V0, 0),
        Field("resource_name", "string", V0, ""),
        Field("pattern_type", "int8", V0, 0),
        Field("principal", "string", V0, ""),
        Field("host", "string", V0, ""),
        Field("operation", "int8", V0, 0),
        Field("permission_type", "int8", V0, 0),
    )


class RemoveAccessControlEntryRecord(Struct):
    """An ACL was removed."""

    acl_id: bytes = ZERO_UUID

    SCHEMA: ClassVar[Schema] = _schema(Field("acl_id", "uuid", V0, ZERO_UUID))


class DelegationTokenRecord(Struct):
    """A delegation token, new or changed; its HMAC is in no record. Times in ms since 1970."""

    owner: str = ""
    requester: str = ""
    renewers: list[str] = field(default_factory=list)
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""

    SCHEMA: ClassVar[Schema] = _schema(
        Field("owner", "string", V0, ""),
        Field("requester", "string", V0, ""),
        Field("renewers", "[]string", V0, ()),
        Field("issue_timestamp", "int64", V0, 0),
        Field("max_timestamp", "int64", V0, 0),
        Field("expiration_timestamp", "int64", V0, 0),
        Field("token_id", "string", V0, ""),
    )


class RemoveDelegationTokenRecord(Struct):
    """A delegation token was removed."""

    token_id: str = ""

    SCHEMA: ClassVar[Schema] = _schema(Field("token_id", "string", V0, ""))


class ProducerIdsRecord(Struct):
    """A block of producer ids was handed to a broker."""

    broker_id: int = 0
    broker_epoch: int = -1
    next_producer_id: int = 0

    SCHEMA: ClassVar[Schema] = _schema(
        Field("broker_id", "int32", V0, 0),
        Field("broker_epoch", "int64", V0, -1),
        Field("next_producer_id", "int64", V0, 0),
    )


class SnapshotHeader(Struct):
    """First control record of a snapshot. timestamp: of the last record that went into it."""

    version: int = 0
    timestamp: int = 0

    SCHEMA: ClassVar[Schema] = _schema(Field("version", "int16", V0, 0), Field("timestamp", "int64", V0, 0))


class SnapshotFooter(Struct):
    """Last control record of a snapshot: the file is whole."""

    version: int = 0

    SCHEMA: ClassVar[Schema] = _schema(Field("version", "int16", V0, 0))


TYPES: Final[dict[int, type[Struct]]] = {
    2: TopicRecord,
    4: ConfigRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    22: RemoveUserScramCredentialRecord,
    26: RemoveDelegationTokenRecord,
}
"""Records that are read, by type."""
_KINDS: Final = {message: kind for kind, message in TYPES.items()} | {
    RegisterBrokerRecord: 0,
    PartitionRecord: 3,
}


def framed(message: Struct) -> bytes:
    """A record's value (MetadataRecordSerde): frame version, type, version, then the message."""
    version = message.SCHEMA.versions[1]
    return bytes((FRAME_VERSION, _KINDS[type(message)], version)) + encode(message, version)
