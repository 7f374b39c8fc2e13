"""Error codes of the protocol: number, whether a client may retry, short text. Source: Kafka 4.3,
Errors."""

from enum import IntEnum

from kbroker.protocol.bounds import MAX_STRING_BYTES


class ErrorCode(IntEnum):
    """Kafka's error codes. `retriable` is what clients make of it; `message` is a short text for
    people.

    Where Kafka sends the text of a code itself to clients, it is in Kafka's words.
    """

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool = False, message: str = "") -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    UNKNOWN_SERVER_ERROR = -1, False, "the server failed in an unexpected way"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset lies outside the log of the partition"
    CORRUPT_MESSAGE = 2, True, "a batch is damaged, too large, or lacks a key in a compacted topic"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "This server does not host this topic-partition."
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader now"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this server does not lead this partition"
    REQUEST_TIMED_OUT = 7, True, "the request took longer than its timeout"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, False, "a batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller epoch is out of date"
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "the metadata of a committed offset is larger than offset.metadata.max.bytes",
    )
    NETWORK_EXCEPTION = 13, True, "the connection broke before an answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "The coordinator is loading and hence can't process requests."
    COORDINATOR_NOT_AVAILABLE = 15, True, "The coordinator is not available."
    NOT_COORDINATOR = 16, True, "This is not the correct coordinator."
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic is not valid for this operation"
    RECORD_LIST_TOO_LARGE = 18, False, "a batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than min.insync.replicas"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "appended, but fewer replicas were in sync than min.insync.replicas",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks is none of -1, 0 and 1"
    ILLEGAL_GENERATION = 22, False, "the generation of the group is another one"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the protocols of the member do not fit those of the group"
    INVALID_GROUP_ID = 24, False, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, False, "the coordinator does not know this member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout lies outside the allowed range"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the committed offset takes too many bytes"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "Topic authorization failed."
    GROUP_AUTHORIZATION_FAILED = 30, False, "Group authorization failed."
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "Cluster authorization failed."
    INVALID_TIMESTAMP = 32, False, "the timestamp of a record lies outside the allowed range"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "this SASL mechanism is not enabled"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the SASL state of the connection"
    UNSUPPORTED_VERSION = 35, False, "The version of API is not supported."
    TOPIC_ALREADY_EXISTS = 36, False, "the topic exists already"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "the configuration is not valid"
    NOT_CONTROLLER = 41, True, "this is not the controller"
    INVALID_REQUEST = (
        42,
        False,
        (
            "This most likely occurs because of a request being malformed by the client library or the message was "
            "sent to an incompatible broker. See the broker logs for more details."
        ),
    )
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the message format does not support this request"
    POLICY_VIOLATION = 44, False, "the request breaks a configured policy"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the sequence number does not follow the last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the sequence number was seen before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer epoch is older than the current one"
    INVALID_TXN_STATE = 48, False, "the transaction is in a state that does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "this producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, True, "another operation on the same transaction is in progress"
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "the sender of the marker is no longer the transaction coordinator",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "Transactional Id authorization failed."
    SECURITY_DISABLED = 54, False, "no authorizer is configured"
    OPERATION_NOT_ATTEMPTED = 55, False, "not attempted, since another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, True, "a log directory failed"
    LOG_DIR_NOT_FOUND = 57, False, "there is no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "nothing is known of this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "a reassignment of the partition is in progress"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = (
        63,
        False,
        "the principal neither owns nor may renew the delegation token",
    )
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "delegation tokens cannot be requested on this connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, False, "the group is not empty"
    GROUP_ID_NOT_FOUND = 69, False, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the epoch of the fetch session is not the expected one"
    LISTENER_NOT_FOUND = 72, True, "the leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, False, "deleting topics is disabled by delete.topic.enable"
    FENCED_LEADER_EPOCH = 74, True, "the leader epoch is older than the current one"
    UNKNOWN_LEADER_EPOCH = 75, True, "the leader epoch is newer than the current one"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the client cannot read the compression type of the partition"
    STALE_BROKER_EPOCH = 77, False, "the broker epoch has changed"
    OFFSET_NOT_AVAILABLE = 78, True, "the high watermark is not known yet after a change of leader"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id of this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "The preferred leader was not available."
    GROUP_MAX_SIZE_REACHED = 81, False, "the group has reached group.max.size"
    FENCED_INSTANCE_ID = 82, False, "another member registered with the same group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "Eligible topic partition leaders are not available."
    ELECTION_NOT_NEEDED = 84, True, "Leader election not needed for topic partition."
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "no reassignment of the partition is in progress"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group is subscribed to the topic"
    INVALID_RECORD = 87, False, "a record is not valid"
    UNSTABLE_OFFSET_COMMIT = 88, True, "offsets of an open transaction are pending"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "the quota is used up"
    PRODUCER_FENCED = 90, False, "a newer producer with the same transactional id took over"
    RESOURCE_NOT_FOUND = 91, False, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, False, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, False, "sender or receiver is not among the voters"
    INVALID_UPDATE_VERSION = 95, False, "the version of the update is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "the principal of the forwarded request cannot be read"
    SNAPSHOT_NOT_FOUND = 98, False, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "This server does not host this topic ID."
    DUPLICATE_BROKER_REGISTRATION = 101, False, "the broker id is in use"
    BROKER_ID_NOT_REGISTERED = 102, False, "the broker id is not registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic id is not that of the log"
    INCONSISTENT_CLUSTER_ID = 104, False, "the cluster id is another one"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "topic ids and names were mixed in one fetch session"
    INELIGIBLE_REPLICA = 107, False, "a replica of the new ISR may not be in it"
    NEW_LEADER_ELECTED = 108, False, "the partition was updated, but its leader has changed"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, False, "the member epoch is fenced: give up all partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, False, "the instance id is still held by another member"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, False, "the member epoch is out of date: retry after the next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the endpoint is of another type"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this type of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription id is out of date"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry data is larger than telemetry.max.bytes"
    INVALID_REGISTRATION = 119, False, "the registration of the broker is not valid"
    TRANSACTION_ABORTABLE = 120, False, "the transaction must be aborted; the transactional id stays usable"
    INVALID_RECORD_STATE = 121, False, "the state of the record does not allow this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, True, "there is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the epoch of the share session is not the expected one"
    FENCED_STATE_EPOCH = 124, False, "the epoch of the share group state is another one"
    INVALID_VOTER_KEY = 125, False, "the key of the voter does not match"
    DUPLICATE_VOTER = 126, False, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, False, "the metadata of the client is too old: bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the epoch of the topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the epoch of the topology is out of date"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "there are too many share sessions"


SHORT_TEXT = MAX_STRING_BYTES // 4


class KafkaError(Exception):
    """One item of a request failed: its answer carries `code` and, where the API has the field,
    `message`.

    own_words: a message about this failure; None when `message` is only the text of the code. A
    text that no answer can carry makes it an UNKNOWN_SERVER_ERROR without one, as in Apache Kafka.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        if message is not None and len(message) > SHORT_TEXT and len(message.encode()) > MAX_STRING_BYTES:
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        super().__init__(code, message)
        self.code = code
        self.own_words = message
        self.message = message if message is not None else code.message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def without_frames(self) -> "KafkaError":
        """This error, to be kept. Its stack frames would keep the request; if one of them holds
        the error, only the garbage collector frees both."""
        self.__traceback__ = self.__context__ = None
        return self
