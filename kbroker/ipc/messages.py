"""The messages between processes, apart from ring entries: the interface of net, io and control.
Those of one subject are beside them: `cleaning_messages.py`, `client_messages.py`,
`http_messages.py`, `login_messages.py`, `move_messages.py`.

Messages are typed structs, sent as MessagePack between processes of one broker that were forked
from one parent (`wire.py`). The receiver checks the types of their fields.
"""

from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from kbroker.config.acls import Acl
from kbroker.config.client_quotas import QuotaTable
from kbroker.config.topic import TopicConfig


class Hello(Struct, frozen=True, array_like=True, tag=True):
    """First message of a child to control. role: "network", "io" or "http"; index within the role;
    epoch: its PROCESS_EPOCH. Control answers with a full Image (network, http) or the worker's
    OpenPartition calls (io)."""

    role: str
    index: int
    epoch: int


class Reply(Struct, frozen=True, array_like=True, tag=True):
    """Answer to a call. error: Kafka error code, 0 for success; value: None on error."""

    call_id: int
    value: Any = None
    error: int = 0
    message: str = ""


# --- network -> control ----------------------------------------------------------------------------


class ClientRequest(Struct, frozen=True, array_like=True, tag=True):
    """A client's request that the network process does not serve itself. Called; the reply's value
    is the whole framed response (size, header, body) as bytes, or None to close the connection
    without an answer.

    body: the bytes after the request header; of a long request a memoryview. connection_id is
    unique within the network process. site: number of the replica site whose port the client came
    to. software_name, software_version: as the client sent them by ApiVersions, or empty.
    token_authenticated: it has logged in by a delegation token."""

    connection_id: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    listener: str
    client_host: str
    client_port: int
    principal: str
    body: bytes
    site: int = 0
    software_name: str = ""
    software_version: str = ""
    token_authenticated: bool = False


class LongRequest(Struct, frozen=True, array_like=True, tag=True):
    """A ClientRequest whose body comes after it, in pieces (`long_messages.py`). Called like a
    ClientRequest; the receiver's link assembles it."""

    request: ClientRequest
    body_bytes: int


class ConnectionClosed(Struct, frozen=True, array_like=True, tag=True):
    """A connection that has share-fetched, or asked about telemetry, is closed: records that its
    session had acquired are released, and its client instance is removed. Sent."""

    connection_id: int


PRODUCE_ADDS_FROM = 12
"""Produce version whose batches add their partition to the transaction (transactions v2)."""


class VerifyTransaction(Struct, frozen=True, array_like=True, tag=True):
    """A Produce request's transactional batch was answered layout.UNVERIFIED by an IO worker: it
    would begin its producer's transaction on these partitions. Called; control looks the partitions
    up in the transaction, or from PRODUCE_ADDS_FROM on adds them to it (KIP-890). The reply's value
    is (error code, text or None) for each partition, ready for the Produce answer. For 0 the batch
    is appended again, as OPERATION_APPEND_VERIFIED, or from that version on as
    OPERATION_APPEND_ADDED, with the completion's LAST_OFFSET in its base offset; that may be
    answered UNVERIFIED again.

    partitions: (topic, index) pairs. produce_version: of the request."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    partitions: tuple[tuple[str, int], ...]
    produce_version: int


class ScramMechanism(NamedTuple):
    """A SCRAM mechanism. number: in Kafka's requests. hash_name: its hash function for hashlib."""

    number: int
    hash_name: str


SCRAM_MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism(1, "sha256"),
    "SCRAM-SHA-512": ScramMechanism(2, "sha512"),
}


class ScramCredential(NamedTuple):
    """A stored SCRAM credential (RFC 5802): checks a proof, cannot give one."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


MORE_REFUSALS: Final = "more refusals of the same second"
"""The resource of a line of the audit log that counts refusals beyond the limits of a second."""
REFUSALS_OF_A_CLIENT: Final = 100
REFUSALS_OF_ALL: Final = 500
"""Refusals that have a line of their own in a second: of a principal at an address (an IPv6 network
counts as one), and in total; control and each network process count their own."""


class AuditEvent(Struct, frozen=True, array_like=True):
    """One line of the audit log. event: login, refusal or sample. count: times within a second."""

    time_ms: int
    event: str
    principal: str
    host: str
    port: int
    listener: str
    operation: str
    allowed: bool
    names: tuple[str, ...] = ()
    reason: str = ""
    count: int = 1


class AuditEvents(Struct, frozen=True, array_like=True, tag=True):
    """Events of a network process for the audit log. Sent."""

    events: tuple[AuditEvent, ...]


# --- control -> network ----------------------------------------------------------------------------


class PartitionImage(Struct, frozen=True, array_like=True):
    """One partition as other processes see it: its leader's log, in an absolute folder.

    in_sync: replicas, the leader included. followers: slots of the other replicas. preferred: the
    leader is the first of the replicas."""

    index: int
    slot: int
    generation: int
    folder: str
    in_sync: int = 1
    followers: tuple[int, ...] = ()
    preferred: bool = True


class TopicImage(Struct, frozen=True, array_like=True):
    """One topic as network processes see it; partitions are ordered by index without gaps."""

    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionImage, ...]


class AclDelta(Struct, frozen=True, array_like=True):
    """Added and removed ACLs."""

    added: tuple[Acl, ...] = ()
    removed: tuple[Acl, ...] = ()


class Image(Struct, frozen=True, array_like=True, tag=True):
    """Topics to add or replace, and names to drop. full: forget everything else first. Called;
    replied when every later request of every connection sees it. settings: dynamic broker settings
    by Kafka name. quotas: all of them in a full image, in other images all quotas of the entities
    that have changed. features: levels that differ from their defaults, and the number of changes
    so far. acls: all of them in a full image, in other images the changes."""

    version: int
    full: bool
    topics: tuple[TopicImage, ...]
    deleted: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    quotas: QuotaTable | None = None
    features: dict[str, int] = field(default_factory=dict)
    features_epoch: int = 0
    acls: AclDelta | None = None


# --- control -> io (all are called) ----------------------------------------------------------------


class Lead(Struct, frozen=True, array_like=True, tag=True):
    """Lead a partition that has replicas elsewhere. in_sync: slots of the other in-sync replicas,
    which the high watermark waits for from now on; others: (slot, IO worker) of every other
    replica; minimum: of in-sync replicas for acks=all. May be repeated with the same epoch. Replied
    with whether every one of in_sync has all records below the high watermark."""

    slot: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    others: tuple[tuple[int, int], ...]
    minimum: int


class Follow(Struct, frozen=True, array_like=True, tag=True):
    """Copy a partition's log from its leader's slot, once that is online with this epoch. Appends
    are refused from then on, and those that wait for the high watermark are answered
    NOT_LEADER_OR_FOLLOWER. leader_slot -1: stop leading and wait for the next Follow. Replied with
    nothing."""

    slot: int
    leader_epoch: int
    leader_slot: int
    leader_generation: int
    leader_worker: int
    leader_folder: str


class OpenPartition(Struct, frozen=True, array_like=True, tag=True):
    """Create (if missing) or recover a partition's log and bring its slot online. role: None for a
    partition of one replica. new: control has just made the partition up, so no earlier copy of it
    can lie in the log dir. Replied with nothing."""

    slot: int
    generation: int
    topic: str
    partition: int
    topic_id: bytes
    log_dir: str
    leader_epoch: int
    config: TopicConfig
    role: Lead | Follow | None = None
    new: bool = False


class ClosePartition(Struct, frozen=True, array_like=True, tag=True):
    """Close, rename the folder to ``<topic>-<partition>.<uuid>-delete``, and remove it after
    file.delete.delay.ms. Replied when no append can reach it any more."""

    slot: int


class ConfigurePartition(Struct, frozen=True, array_like=True, tag=True):
    """New effective topic config; takes effect with the next append or retention run."""

    slot: int
    config: TopicConfig


class DeleteRecords(Struct, frozen=True, array_like=True, tag=True):
    """Advance the log start offset (-1: to the high watermark). Replied with the new log start
    offset; OFFSET_OUT_OF_RANGE beyond the high watermark."""

    slot: int
    offset: int


class SyncLog(Struct, frozen=True, array_like=True, tag=True):
    """Begin a sync of everything that is in the log. Slot.DURABLE has passed it when it has
    ended."""

    slot: int


class EpochEndOffset(Struct, frozen=True, array_like=True, tag=True):
    """OffsetForLeaderEpoch. Replied with (leader_epoch, end_offset), (-1, -1) when unknown."""

    slot: int
    leader_epoch: int


class DescribeProducers(Struct, frozen=True, array_like=True, tag=True):
    """Replied with a tuple: for each slot the fields of its ProducerStates, or an error code. It
    ends with the slot at which the limit is reached. after: producer id before the first of the
    first slot."""

    slots: tuple[int, ...]
    after: int = -1
    limit: int = 2000


class ProducerState(NamedTuple):
    """One active producer of a partition, in DescribeProducers' terms and order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class SetLeaderEpoch(Struct, frozen=True, array_like=True, tag=True):
    """A newer leader epoch: written to leader-epoch-checkpoint with the next append."""

    slot: int
    leader_epoch: int


class Settings(Struct, frozen=True, array_like=True, tag=True):
    """Dynamic broker settings by Kafka name, for the worker's own use (retention, flush, ...)."""

    values: dict[str, str]


class Drain(Struct, frozen=True, array_like=True, tag=True):
    """Clean shutdown: empty the rings, flush, write checkpoints and snapshots, reply, exit."""
