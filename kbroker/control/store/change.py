"""The contents of the store, and changes of them."""

from typing import Final

from msgspec import Struct, field

from kbroker.config.acls import Acl
from kbroker.config.client_quotas import Entity
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.store.access import ScramKey
from kbroker.ipc.messages import ScramCredential

MAX_CHANGES: Final = 10_000
"""The ACLs, credentials or quotas that one request may change: the records that Kafka's
QuorumController stores together."""
ConfigKey = tuple[int, str]
"""Resource type and name."""


class Deletion(Struct, frozen=True):
    """A log of a deleted topic or replica: clients no longer see it, but an IO worker may still
    have it."""

    topic_id: bytes
    partition: Replica


class Change(Struct):
    """One atomic change. configs: (resource type, name) -> key -> new value, None to delete the
    key.

    deletions: logs to delete; they are stored until `finish_deletions`. led_partitions: with a
    changed leader, epoch or replicas; partitions that are no longer stored are skipped.
    client_quotas: entity -> key -> new value, None to delete the key. scram, tokens: new values,
    None to delete them. acls: True to add one, False to delete it.
    """

    new_topics: list[Topic] = field(default_factory=list)
    deleted_topics: list[str] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    new_partitions: list[Partition] = field(default_factory=list)
    moved_partitions: list[Partition] = field(default_factory=list)
    led_partitions: list[Partition] = field(default_factory=list)
    configs: dict[ConfigKey, dict[str, str | None]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    client_quotas: dict[Entity, dict[str, float | None]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential | None] = field(default_factory=dict)
    acls: dict[Acl, bool] = field(default_factory=dict)
    tokens: dict[str, DelegationToken | None] = field(default_factory=dict)


class Stored(Struct):
    """Everything that the store holds. login_secret: of decoys (see decoys.py)."""

    topics: list[Topic]
    configs: dict[ConfigKey, dict[str, str]]
    features: dict[str, int]
    features_epoch: int
    next_generation: int
    client_quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    scram: dict[ScramKey, ScramCredential] = field(default_factory=dict)
    acls: list[Acl] = field(default_factory=list)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    login_secret: bytes = b""
